"""Read messages of electronic mail: subject, who wrote to whom and when, and the texts; attachments are named only.

Pages that are saved with what belongs to them (`.mht`) are such messages, too.
"""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import re
from email.errors import MessageError
from email.headerregistry import HeaderRegistry
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, NamedTuple, cast

from mog_assets.documents.decoding import decode
from mog_assets.documents.encodings import known_encoding
from mog_assets.documents.formats.html_page import read_html
from mog_assets.documents.formats.marks import MarkedText, Parsed, clean

_PEOPLE = ("from", "to", "cc")
# Of a message that is forwarded, what is shown above its text.
_HEAD = (*_PEOPLE, "date", "subject")
_WORD, _URL = re.compile(r"\w+"), re.compile(r"\w+://\S+")
# The strings of a page that are shown.
_SHOWN = "//text()[not(parent::style or parent::script or parent::title)]"
# The library parses a header again each time that it is asked for.
_POLICY = email.policy.default.clone(header_factory=lru_cache(maxsize=128)(HeaderRegistry()))
# A message may name thousands.
_LONGEST_FIELD, _MOST_ATTACHMENTS = 1_000, 100


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
    message = email.message_from_bytes(content, policy=_POLICY)
    if not any(_field(message, name) for name in (*_PEOPLE, "subject", "date")):
        raise ValueError("expected a message with From, To, Subject or Date, got none of them")
    subject, unread, draft = _field(message, "subject"), list[str](), MarkedText(limit)
    pages = [page for page in map(_page_of, _texts(message, unread)) if page.text.strip()]
    for page in pages or [Parsed("", subject)]:
        draft.add(page.text, marks=page.marks)
    parsed = draft.parsed(subject, fallback, {"attachments not read": unread[:_MOST_ATTACHMENTS]} if unread else {})
    return parsed._replace(metadata=_metadata(message))


def read_archive(content: bytes, fallback: str, limit: int) -> Parsed:
    """Read a page that is saved with what belongs to it; arguments as `read_message` has them."""
    draft = MarkedText(limit)
    for page in map(_page_of, _texts(email.message_from_bytes(content, policy=_POLICY), [])):
        draft.add(page.text, marks=page.marks)
    return draft.parsed("", fallback)


def _metadata(message: Message) -> dict[str, Any]:
    metadata = {name: value for name in _PEOPLE if (value := _field(message, name))}
    with contextlib.suppress(ValueError, OverflowError):
        metadata["date"] = parsedate_to_datetime(_field(message, "date")).isoformat()
    return metadata


class _Written(NamedTuple):
    """A text of a message, whether it is HTML, and its different words, without addresses."""

    html: bool
    text: str
    words: set[str]


def _page_of(written: _Written) -> Parsed:
    """Return a text with its headings."""
    return read_html(written.text, "") if written.html else Parsed("", written.text)


def _texts(part: Message, unread: list[str]) -> list[_Written]:
    """Return the texts below a part in their order, none of them blank; what else is there is named in `unread`."""
    kind, inner = part.get_content_type(), cast(Any, part.get_payload())
    chosen: list[_Written] = []
    if kind == "message/rfc822" and isinstance(inner, list):
        forwarded = inner[0]
        if part.get("content-transfer-encoding", "").lower() == "base64":
            # Against the standard, which has no encoding of a whole message.
            encoded = base64.b64decode(forwarded.as_bytes() + b"==")
            forwarded = email.message_from_bytes(encoded, policy=_POLICY)
        lines = [f"{name.title()}: {value}" for name in _HEAD if (value := _field(forwarded, name))]
        return [*_written(False, "\n".join(lines)), *_texts(forwarded, unread)]
    if isinstance(inner, list) and kind.startswith("multipart/"):
        for option in (_texts(one, unread) for one in inner):
            words, others = (set[str]().union(*(text.words for text in side)) for side in (chosen, option))
            if kind != "multipart/alternative":
                chosen += option
            elif len(others - words) > len(others) / 3:
                # Where they have little in common, both: what a stub for simple programs says need not be in the page.
                chosen = option if len(words - others) < len(words) / 2 else chosen + option
        return chosen
    if part.get_content_disposition() != "attachment" and re.fullmatch("text/(plain|html)|multipart/.*", kind):
        return _written(kind == "text/html", clean(_text(part).replace("\r\n", "\n")).strip("\n"))
    unread.append(clean(part.get_filename() or kind)[:_LONGEST_FIELD])
    return []


def _written(html: bool, text: str) -> list[_Written]:
    """Return a text unless it is blank; a page is not laid out for that, which takes long."""
    from lxml import etree

    shown = text
    if html:
        page = etree.HTML(text.encode(), etree.HTMLParser(encoding="utf-8")) if text.strip() else None
        shown = "" if page is None else " ".join(page.xpath(_SHOWN))
    words = set(_WORD.findall(_URL.sub("", shown).lower()))
    return [_Written(html, text, words)] if words else []


def _text(part: Message) -> str:
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    try:
        return data.decode(known_encoding(part.get_content_charset() or "") or "utf-8")
    # Unknown names of encodings, and bytes of another one.
    except (LookupError, UnicodeDecodeError):
        return decode(data)[0]


def _field(message: Message, name: str) -> str:
    """Return a header of a message on one line; empty if it has none, or one that cannot be read."""
    try:
        value = message.get(name)
    # What the library raises for headers that break its grammar.
    except (MessageError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ""
    return clean(" ".join(str(value or "").split()))[:_LONGEST_FIELD]
