"""Sentences and tokens of a text, as offsets: fast, in order, without copying the text."""

from __future__ import annotations

import re

import numpy as np

# Full stops and question marks of East Asia, India, Arabic, Armenian, Ethiopia, Khmer and Burmese.
_STOPS = "。！？｡।॥؟۔։።។။"
# A sentence ends after its final punctuation, closing quotes and brackets, and the white space that follows; if the
# next one starts with a lower-case letter, the full stop belongs to an abbreviation. A line break ends any sentence.
# The first character is before the alternatives, because the engine then searches for it alone. A run of full stops is
# tried once, at its start: trying each would take quadratic time on a line of a million.
_END = re.compile(
    rf"[.!?…{_STOPS}\n](?:"
    rf"(?<=\n)\s*|(?<=[{_STOPS}])[{_STOPS}]*\s*|"
    r"(?<=[.!?…])(?<![.!?…][.!?…])[.!?…]*+[\"'”’)\]]*+\s++(?=[^a-z]))"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Dr|Mr|Mrs|Ms|Prof|St|vs|etc|e\.g|i\.e|cf|al|Fig|fig|No|no|approx|ca|Inc|Ltd|Jr|Sr|U\.S))$"
)
# Not a model's tokenizer: counts must not change with the encoder or the reader.
_TOKEN = re.compile(r"\w+|[^\w\s]")


def token_starts(text: str) -> np.ndarray:
    """Offsets at which the tokens of a text start: words (runs of letters, digits, underscores) and punctuation marks.

    Args:
        text: Any text.

    Returns:
        int64 array of strictly increasing offsets.
    """
    return np.fromiter((match.start() for match in _TOKEN.finditer(text)), np.int64)


def sentence_ends(text: str) -> np.ndarray:
    """Offsets just after each sentence and the white space that follows it.

    Args:
        text: Any text.

    Returns:
        int64 array of strictly increasing offsets; the last one is len(text) unless the text is empty.
    """
    ends = []
    abbreviated = _ABBREVIATION.search
    for match in _END.finditer(text):
        start, end = match.span()
        if text[start] == "." and abbreviated(text, max(0, start - 8), start) and "\n" not in match.group():
            continue
        ends.append(end)
    if text and (not ends or ends[-1] != len(text)):
        ends.append(len(text))
    return np.asarray(ends, np.int64)


def units(text: str, longest: int) -> np.ndarray:
    """Offsets just after each sentence; a sentence of more than `longest` characters counts as several.

    It is cut at white space, or anywhere if there is none: a text without sentence ends, such as a table, would
    otherwise be one unit as long as its document.

    Args:
        text: Any text.
        longest: Characters of a unit, ≥ 1. None is longer.

    Returns:
        int64 array of strictly increasing offsets; the last one is len(text) unless the text is empty.
    """
    ends = sentence_ends(text)
    if not (np.diff(ends, prepend=0) > longest).any():
        return ends
    ends_of: list[int] = []
    start = 0
    for end in ends.tolist():
        while end - start > longest:
            start = cut(text, start, start + longest)
            ends_of.append(start)
        ends_of.append(end)
        start = end
    return np.asarray(ends_of, np.int64)


def cut(text: str, start: int, limit: int) -> int:
    """The offset after the last white space between `start` and `limit`, else `limit`."""
    within = text[start + 1 : limit]
    if not within or within[-1].isspace():
        return limit
    word = within.rsplit(None, 1)[-1]
    return limit if len(word) == len(within) else limit - len(word)
