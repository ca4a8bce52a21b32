"""Read the texts of MIME messages: of mail, and of pages that are saved with what belongs to them."""

from __future__ import annotations

import base64
import email
import email.policy
import re
from email.errors import MessageError
from email.headerregistry import HeaderRegistry
from email.message import Message
from functools import lru_cache
from typing import Any, NamedTuple, cast

from mog_assets.documents.decoding import decode, known_encoding
from mog_assets.documents.formats.html_page import read_html
from mog_assets.documents.formats.marks import Parsed, clean

PEOPLE = ("from", "to", "cc")
# Of a message that is forwarded, what is shown above its text.
_HEAD = (*PEOPLE, "date", "subject")
_WORD, _URL = re.compile(r"\w+"), re.compile(r"\w+://\S+")
# The strings of a page that are shown.
_SHOWN = "//text()[not(parent::style or parent::script or parent::title)]"
# The library parses a header again each time that it is asked for.
POLICY = email.policy.default.clone(header_factory=lru_cache(maxsize=128)(HeaderRegistry()))
# A message may name thousands.
_LONGEST_FIELD = 1_000


class Written(NamedTuple):
    """A text of a message, whether it is HTML, and its different words, without addresses."""

    html: bool
    text: str
    words: set[str]


def page_of(written: Written) -> Parsed:
    """A text with its headings."""
    return read_html(written.text, "") if written.html else Parsed("", written.text)


def texts(part: Message, unread: list[str]) -> list[Written]:
    """The texts below a part in their order, none of them blank; what else is there is named in `unread`."""
    kind, inner = part.get_content_type(), cast(Any, part.get_payload())
    found: list[Written] = []
    if kind == "message/rfc822" and isinstance(inner, list):
        forwarded = inner[0]
        if part.get("content-transfer-encoding", "").lower() == "base64":
            # Against the standard, which has no encoding of a whole message.
            encoded = base64.b64decode(forwarded.as_bytes() + b"==")
            forwarded = email.message_from_bytes(encoded, policy=POLICY)
        lines = [f"{name.title()}: {value}" for name in _HEAD if (value := field(forwarded, name))]
        return [*_written(False, "\n".join(lines)), *texts(forwarded, unread)]
    if isinstance(inner, list) and kind.startswith("multipart/"):
        for option in (texts(one, unread) for one in inner):
            words, others = (set[str]().union(*(text.words for text in side)) for side in (found, option))
            if kind != "multipart/alternative":
                found += option
            elif len(others - words) > len(others) / 3:
                # Where they have little in common, both: what a stub for simple programs says need not be in the page.
                found = option if len(words - others) < len(words) / 2 else found + option
        return found
    if part.get_content_disposition() != "attachment" and re.fullmatch("text/(plain|html)|multipart/.*", kind):
        return _written(kind == "text/html", clean(_text(part).replace("\r\n", "\n")).strip("\n"))
    unread.append(clean(part.get_filename() or kind)[:_LONGEST_FIELD])
    return []


def _written(html: bool, text: str) -> list[Written]:
    """A text unless it is blank; a page is not laid out for that, which takes long."""
    from lxml import etree

    shown = text
    if html:
        page = etree.HTML(text.encode(), etree.HTMLParser(encoding="utf-8")) if text.strip() else None
        shown = "" if page is None else " ".join(page.xpath(_SHOWN))
    words = set(_WORD.findall(_URL.sub("", shown).lower()))
    return [Written(html, text, words)] if words else []


def _text(part: Message) -> str:
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    try:
        return data.decode(known_encoding(part.get_content_charset() or "") or "utf-8")
    # Unknown names of encodings, and bytes of another one.
    except (LookupError, UnicodeDecodeError):
        return decode(data)[0]


def field(message: Message, name: str) -> str:
    """Return a header of a message on one line; empty if it has none, or one that cannot be read."""
    try:
        value = message.get(name)
    # What the library raises for headers that break its grammar.
    except (MessageError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ""
    return clean(" ".join(str(value or "").split()))[:_LONGEST_FIELD]
