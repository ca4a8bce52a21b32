"""Texts without the characters that nobody sees: soft hyphens, zero-width characters and direction marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# Not joiners, which are part of the spelling of some scripts.
HIDDEN = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
# A soft hyphen at the end of a line, joiners that only forbid a ligature, and kana of half width with their marks.
_CHANGED = re.compile(
    f"\u00ad[ \t]*\r?\n[ \t]*(?=\\w)|(?<=[a-z\u00df-\u024f])[\u200c\u200d](?=[a-z\u00df-\u024f])|[{HIDDEN}]"
    "|[\uff66-\uff9d][\uff9e\uff9f]?"
)


def plain(text: str) -> tuple[str, Sequence[int]]:
    """A text as it is analysed: without hidden characters, and with kana of full width.

    Returns:
        The text, and the offset in `text` of each of its characters and of the end.
    """
    if text.isascii() or not _CHANGED.search(text):
        return text, range(len(text) + 1)
    parts, origin, end = list[str](), list[int](), 0
    for match in _CHANGED.finditer(text):
        kana = unicodedata.normalize("NFKC", match[0]) if "\uff66" <= match[0][0] <= "\uff9d" else ""
        parts += [text[end : match.start()], kana]
        origin += [*range(end, match.start()), *range(match.start(), match.start() + len(kana))]
        end = match.end()
    return "".join([*parts, text[end:]]), [*origin, *range(end, len(text) + 1)]
