"""Read messages of electronic mail: subject, who wrote to whom and when, and the texts; attachments are named only."""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import re
from email.errors import MessageError
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, cast

from mog_assets.corpus.decoding import decode, known_encoding
from mog_assets.corpus.html_page import read_html
from mog_assets.corpus.marks import MarkedText, Parsed, clean

_PEOPLE = ("from", "to", "cc")
# Of a message that is forwarded, what is shown above its text.
_HEAD = (*_PEOPLE, "date", "subject")
_WORD, _URL = re.compile(r"\w+"), re.compile(r"\w+://\S+")
# The strings of a page that are shown.
_SHOWN = "//text()[not(parent::style or parent::script or parent::title)]"
# Whether it is HTML, and the text.
_Text = tuple[bool, str]
# A message may name thousands.
_LONGEST_FIELD = 1_000
_MOST_ATTACHMENTS = 100


def read_message(content: bytes, fallback: str, limit: int) -> Parsed:
    """Read a message (`.eml`): its texts and the messages that it forwards; without text, its subject.

    Of alternatives, the plain text is read unless the page has many words that it lacks.

    Args:
        content: The file.
        fallback: Title of a message without subject and first line.
        limit: Maximum characters of the text.

    Raises:
        ValueError: it is no message; the message is the reason.
    """
    message = email.message_from_bytes(content, policy=email.policy.default)
    if not any(_field(message, name) for name in (*_PEOPLE, "subject", "date")):
        raise ValueError("expected a message with From, To, Subject or Date, got none of them")
    subject, unread, draft = _field(message, "subject"), list[str](), MarkedText(limit)
    for html, text in texts(message, unread) or [(False, subject)]:
        page = read_html(text, fallback) if html else Parsed("", text)
        draft.add(page.text, marks=page.marks)
    parsed = draft.parsed(subject, fallback, {"attachments not read": unread[:_MOST_ATTACHMENTS]} if unread else {})
    return parsed._replace(metadata=_metadata(message))


def texts(part: Message, unread: list[str]) -> list[_Text]:
    """The texts below a part in their order, none of them blank; what else is there is named in `unread`."""
    kind, inner = part.get_content_type(), cast(Any, part.get_payload())
    found: list[_Text] = []
    if kind == "message/rfc822" and isinstance(inner, list):
        forwarded = inner[0]
        if part.get("content-transfer-encoding", "").lower() == "base64":
            # Against the standard, which has no encoding of a whole message.
            encoded = base64.b64decode(forwarded.as_bytes() + b"==")
            forwarded = email.message_from_bytes(encoded, policy=email.policy.default)
        lines = [f"{name.title()}: {_field(forwarded, name)}" for name in _HEAD if _field(forwarded, name)]
        found = [(False, "\n".join(lines)), *texts(forwarded, unread)]
    elif kind == "multipart/alternative" and isinstance(inner, list):
        for option in (texts(one, unread) for one in inner):
            words, others = _words(found), _words(option)
            # Where they have little in common, both: what a stub for simple programs says need not be in the page.
            if len(others - words) > len(others) / 3:
                found = option if len(words - others) < len(words) / 2 else found + option
    elif isinstance(inner, list) and part.get_content_maintype() == "multipart":
        found = [text for one in inner for text in texts(one, unread)]
    elif part.get_content_disposition() != "attachment" and re.fullmatch("text/(plain|html)|multipart/.*", kind):
        found = [(kind == "text/html", clean(_text(part).replace("\r\n", "\n")).strip("\n"))]
    else:
        unread.append(clean(part.get_filename() or kind)[:_LONGEST_FIELD])
    return [text for text in found if _words([text])]


def _words(found: list[_Text]) -> set[str]:
    """The different words of texts, without addresses; a page is not laid out for that, which takes long."""
    from lxml import etree

    strings: list[str] = []
    for html, text in found:
        page = etree.HTML(text.encode(), etree.HTMLParser(encoding="utf-8")) if html and text.strip() else None
        strings += [text] if not html else [] if page is None else page.xpath(_SHOWN)
    return set(_WORD.findall(_URL.sub("", " ".join(strings)).lower()))


def _text(part: Message) -> str:
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    try:
        return data.decode(known_encoding(part.get_content_charset() or "") or "utf-8")
    # Unknown names of encodings, and bytes of another one.
    except (LookupError, UnicodeDecodeError):
        return decode(data)[0]


def _field(message: Message, name: str) -> str:
    try:
        value = message.get(name)
    # What the library raises for headers that break its grammar.
    except (MessageError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ""
    return clean(" ".join(str(value or "").split()))[:_LONGEST_FIELD]


def _metadata(message: Message) -> dict[str, Any]:
    metadata = {name: value for name in _PEOPLE if (value := _field(message, name))}
    with contextlib.suppress(ValueError, OverflowError):
        metadata["date"] = parsedate_to_datetime(_field(message, "date")).isoformat()
    return metadata
