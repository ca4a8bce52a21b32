"""Text that any terminal, page and file can show."""

import re

# Control characters, line and paragraph separators, direction marks, zero-width spaces, lone surrogates. Joiners
# (U+200C, U+200D) are part of spelling and stay.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: object) -> str:
    r"""A text that is safe in any terminal, page and UTF-8 file: invisible characters are escaped (`\n`, `\u202e`)."""
    return _UNPRINTABLE.sub(lambda m: m[0].encode("unicode_escape").decode("ascii"), str(text))
