"""Read messages of electronic mail: subject, who wrote to whom and when, and the text; attachments are named only."""

from __future__ import annotations

import contextlib
import email
import email.policy
from email.errors import MessageError
from email.message import EmailMessage, MIMEPart
from email.utils import parsedate_to_datetime
from typing import Any

from mog_assets.corpus.decoding import decode
from mog_assets.corpus.html_page import read_html
from mog_assets.corpus.marks import MarkedText, Parsed, clean

_PEOPLE = ("from", "to", "cc")
# A message may name thousands.
_LONGEST_FIELD = 1_000
_MOST_ATTACHMENTS = 100


def read_message(content: bytes, fallback: str, limit: int) -> Parsed:
    """Read a message (`.eml`). The plain text is read where there is one, else the page.

    Args:
        content: The file.
        fallback: Title of a message without subject and first line.
        limit: Maximum characters of the text.

    Raises:
        ValueError: it is no message; the message is the reason.
    """
    message = email.message_from_bytes(content, policy=email.policy.default)
    if not isinstance(message, EmailMessage) or not any(
        _field(message, name) for name in (*_PEOPLE, "subject", "date")
    ):
        raise ValueError("expected a message with From, To, Subject or Date, got none of them")
    draft, body = MarkedText(limit), message.get_body(("plain", "html"))
    if body is not None:
        text = _text(body)
        if body.get_content_subtype() == "html":
            page = read_html(clean(text), fallback)
            draft.add(page.text, marks=page.marks)
        else:
            draft.add(clean(text.replace("\r\n", "\n")).strip("\n"))
    parsed = draft.parsed(_field(message, "subject"), fallback, _notes(message))
    return parsed._replace(metadata=_metadata(message))


def _text(part: MIMEPart) -> str:
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    try:
        return data.decode(part.get_content_charset() or "utf-8")
    # Unknown names of encodings, and bytes of another one.
    except (LookupError, UnicodeDecodeError):
        return decode(data)[0]


def _field(message: EmailMessage, name: str) -> str:
    try:
        value = message.get(name)
    # What the library raises for headers that break its grammar.
    except (MessageError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ""
    return clean(" ".join(str(value or "").split()))[:_LONGEST_FIELD]


def _metadata(message: EmailMessage) -> dict[str, Any]:
    metadata = {name: value for name in _PEOPLE if (value := _field(message, name))}
    with contextlib.suppress(ValueError, OverflowError):
        metadata["date"] = parsedate_to_datetime(_field(message, "date")).isoformat()
    return metadata


def _notes(message: EmailMessage) -> dict[str, Any]:
    names = [clean(part.get_filename() or part.get_content_type()) for part in message.iter_attachments()]
    return {"attachments not read": [name[:_LONGEST_FIELD] for name in names[:_MOST_ATTACHMENTS]]} if names else {}
