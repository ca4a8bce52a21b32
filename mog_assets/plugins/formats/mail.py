"""Read messages of electronic mail: subject, who wrote to whom and when, and the texts; attachments are named only."""

from __future__ import annotations

import contextlib
import email
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any

from mog_assets.documents.formats.marks import MarkedText, Parsed
from mog_assets.documents.formats.mime import PEOPLE, POLICY, field, page_of, texts

# A message may name thousands.
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
    message = email.message_from_bytes(content, policy=POLICY)
    if not any(field(message, name) for name in (*PEOPLE, "subject", "date")):
        raise ValueError("expected a message with From, To, Subject or Date, got none of them")
    subject, unread, draft = field(message, "subject"), list[str](), MarkedText(limit)
    pages = [page for page in map(page_of, texts(message, unread)) if page.text.strip()]
    for page in pages or [Parsed("", subject)]:
        draft.add(page.text, marks=page.marks)
    parsed = draft.parsed(subject, fallback, {"attachments not read": unread[:_MOST_ATTACHMENTS]} if unread else {})
    return parsed._replace(metadata=_metadata(message))


def _metadata(message: Message) -> dict[str, Any]:
    metadata = {name: value for name in PEOPLE if (value := field(message, name))}
    with contextlib.suppress(ValueError, OverflowError):
        metadata["date"] = parsedate_to_datetime(field(message, "date")).isoformat()
    return metadata
