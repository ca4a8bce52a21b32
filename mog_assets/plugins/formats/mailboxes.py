"""Split mailboxes (`.mbox`, RFC 4155) into messages, without parsing them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

# A line of a message that would look like the beginning of the next one has a `>` before it.
_QUOTED = re.compile(rb"^>(>*From )")
_NAME = re.compile(rb"^message-id:\s*<([!-;=?-~]{1,500})>", re.IGNORECASE | re.MULTILINE)
# Of a message's beginning, in which its name is looked for.
_HEAD = 20_000
# A longer line is no line of a message, whose lines have 998 characters at most.
_LINE = 1 << 20


def messages(stream: BinaryIO, limit: int) -> Iterator[tuple[int, str, bytes, int]]:
    """Yield number (from 1), name, bytes and size of every message; of one with more than `limit` bytes only its size.

    Raises:
        ValueError: it is no mailbox; the message is the reason.
    """
    number, size, lines, blank = 0, 0, list[bytes](), True
    while line := stream.readline(_LINE):
        if blank and line.startswith(b"From "):
            if number:
                yield _message(number, lines, size)
            number, size, lines = number + 1, 0, []
        elif number:
            size += len(line)
            if size <= limit:
                lines.append(_QUOTED.sub(rb"\1", line))
            else:
                lines.clear()
        elif line.strip():
            raise ValueError("expected a mailbox, whose messages begin with a line `From `")
        blank = not line.strip()
    if number:
        yield _message(number, lines, size)


def _message(number: int, lines: list[bytes], size: int) -> tuple[int, str, bytes, int]:
    content = b"".join(lines)
    return number, name_of(content), content, size


def name_of(message: bytes) -> str:
    """Return the name that a message has anywhere (`Message-ID`); empty if it has none."""
    head = re.split(rb"\r?\n\r?\n", message[:_HEAD], maxsplit=1)[0]
    match = _NAME.search(head)
    return match[1].decode("ascii", "replace") if match else ""
