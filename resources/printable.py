"""Text that any terminal, log, page and file can show: what they would obey, or hide, is escaped."""

from __future__ import annotations

import logging
import re
from typing import Any

# Control characters, line and paragraph separators, direction marks, zero-width spaces, lone surrogates. Joiners
# (U+200C, U+200D) are part of spelling and stay.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: object) -> str:
    r"""Return text safe in any terminal, page and UTF-8 file: invisible characters are escaped (`\n`, `\u202e`)."""
    return _UNPRINTABLE.sub(lambda m: m[0].encode("unicode_escape").decode("ascii"), str(text))


# Control characters but tab, line feed and the carriage return before one; direction marks, line and paragraph
# separators, lone surrogates.
_OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)


def escaped(text: str) -> str:
    r"""Return a text that a terminal shows and does not obey: control characters and direction marks become `\u001b`.

    Tabs and ends of lines stay. The notation is that of JSON: a JSON text remains one, with the same values.
    """
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class EscapedRecord(logging.LogRecord):
    """A log record whose message and traceback are escaped, for `logging.setLogRecordFactory`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.exc_info and self.exc_info[0] is not None:
            # Every formatter uses this text instead of its own.
            self.exc_text = escaped(logging.Formatter().formatException(self.exc_info))

    def getMessage(self) -> str:  # noqa: N802, D102 - overridden
        return escaped(super().getMessage())
