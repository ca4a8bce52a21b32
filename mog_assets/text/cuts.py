"""Sentences and tokens of a text, cuts between them, and the cheapest cut, as offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
    """Return offsets at which the tokens of a text start: words (letters, digits, underscores) and punctuation.

    Returns:
        int64 array of strictly increasing offsets.
    """
    return np.fromiter((match.start() for match in _TOKEN.finditer(text)), np.int64)


def sentence_ends(text: str) -> np.ndarray:
    """Return offsets just after each sentence and the white space that follows it.

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
    """Return offsets just after each sentence; a sentence of more than `longest` characters counts as several.

    It is cut at white space, or anywhere if there is none: a text without sentence ends, such as a table, would
    otherwise be one unit as long as its document.

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
    """Return the offset after the last white space between `start` and `limit`, else `limit`."""
    within = text[start + 1 : limit]
    if not within or within[-1].isspace():
        return limit
    word = within.rsplit(None, 1)[-1]
    return limit if len(word) == len(within) else limit - len(word)


Spans = np.ndarray  # int64, shape (n, 2): start and end offset of each level-1 chunk, in characters


def unit_chars(finest_chars: int) -> int:
    """Return characters of the longest unit that has a vector, and of the longest chunk made of such units."""
    return 2 * finest_chars


def spans_to(ends: Sequence[int] | np.ndarray) -> Spans:
    """Return adjacent spans, the first from 0, each to one of these offsets."""
    after = np.asarray(ends, np.int64)
    return np.stack([np.concatenate([[0], after[:-1]]), after], axis=1) if len(after) else np.zeros((0, 2), np.int64)


# A line that may say what the text below it is about: a heading, a term that is defined, what introduces a list.
_LEADS = r"(?:(?! \| )[^\n]){0,119}(?:[^\n|.!?…;,。！？।؟]|\.\.\.)"
_LEADING = re.compile(rf"(?=[^\n]*\w){_LEADS}")
_PROSE = re.compile(rf"(?:{_LEADS}\n){{0,2}}(?:[^\n]{{80}}|[^\n]*[.!?…:。！？।؟][^\w\n]*(?:\n|$))")
_BELOW = re.compile(rf"\n*(?:[^\n]{{1,119}}\n+){{0,3}}{_PROSE.pattern}")
_NEAR = 80
# Lines of a list of terms are shorter, those of a paragraph that is broken into lines are longer.
_TERM = 45
# So many in a row are moved: a list of short lines is none.
_LEADING_LINES = 3


def led(text: str, spans: Spans) -> Spans:
    """Return the spans of a text of which none but the last ends on a heading or a defined term: these go to the next.

    A heading is a short line that ends without punctuation, and is a paragraph of its own or stands above prose.
    """
    ends = spans[:, 1].tolist()
    for i, end in enumerate(ends[:-1]):
        start = ends[i - 1] if i else 0
        for _ in range(_LEADING_LINES):
            stop = len(text[start:end].rstrip()) + start
            line = text.rfind("\n", start, stop) + 1
            # Nothing would be left, or the line goes on in the next.
            if line <= start or (text[end - 1] != "\n" and text[end : end + 1] != "\n"):
                break
            moved = end < spans[i, 1]
            below = moved or alone(text, line, stop) or _PROSE.match(text, end)
            if not (_LEADING.fullmatch(text, line, stop) and below):
                break
            end = line
        else:
            end = spans[i, 1]
        ends[i] = end
    return spans_to(ends)


def alone(text: str, start: int, end: int) -> bool:
    """Return whether a line of a text has blank lines, or nothing, above and below it."""
    above, below = text[max(start - _NEAR, 0) : start], text[end : end + _NEAR]
    blank = above[len(above.rstrip()) :], below[: len(below) - len(below.lstrip())]
    return (blank[0].count("\n") > 1 or blank[0] == above) and (blank[1].count("\n") > 1 or blank[1] == below)


def leads(text: str, start: int, end: int) -> bool:
    """Return whether a line of a text is a heading or a term with prose below it.

    A list of short lines has none, and a line of a paragraph that is broken into lines goes on from the one above.
    """
    if not _LEADING.fullmatch(text, start, end) or not _BELOW.match(text, end):
        return False
    for _ in range(_LEADING_LINES):
        above = text.rfind("\n", 0, max(start - 1, 0)) + 1
        if start < 2 or not _LEADING.fullmatch(text, above, start - 1):
            return True
        if start - above > _TERM:
            return False
        start = above
    return False


# Most units of a chunk, except a single long unit: two thousand characters of prose have about fifteen.
WINDOW = 24


def opening(text: str, ends: np.ndarray) -> np.ndarray:
    """Return which units open a paragraph: the first, and those after a blank line; bool of shape (units,)."""
    opens = np.ones(len(ends), bool)
    start = 0
    for i, end in enumerate(ends[:-1].tolist()):
        unit = text[start:end]
        opens[i + 1] = unit.count("\n", len(unit.rstrip())) > 1
        start = end
    return opens


def candidates(ends: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the possible chunks of a text.

    Returns:
        Characters of the chunk from the start of each unit to the end of each following one, int64 of shape (n,
        WINDOW); and whether such a chunk is possible, bool of the same shape.
    """
    last = np.arange(len(ends))[:, None] + np.arange(WINDOW)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    length = ends[np.minimum(last, len(ends) - 1)] - starts[:, None]
    return length, (last < len(ends)) & ((length <= longest) | (np.arange(WINDOW) == 0))


def least(cost: np.ndarray, penalty: float = 0) -> list[int]:
    """Return the cut of a text with the lowest total cost of its chunks.

    Returns:
        Increasing numbers, the last one n: chunks end with these many units.
    """
    n = len(cost)
    best, before = np.full(n + WINDOW + 1, np.inf), np.zeros(n + WINDOW + 1, np.int64)
    best[0] = 0
    for start in range(n):
        reach = best[start] + penalty + cost[start]
        behind = slice(start + 1, start + 1 + WINDOW)
        better = reach < best[behind]
        best[behind][better] = reach[better]
        before[behind][better] = start
    taken = [n] if n else []
    while taken and before[taken[-1]]:
        taken.append(int(before[taken[-1]]))
    return taken[::-1]
