"""Offsets of a place in a document's text, from its folded positions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mog_assets.questions.folding import Folded
from mog_assets.questions.quote_index import LONG, QuoteIndex, Scope

# Marks at an end of a quote that are compared with the document's, and blanks between them.
_MARKS = 16
_ELLIPSIS = re.compile(r"\.{3,}|…")
_ALIKE = {**dict.fromkeys('‘’‚‛“”„‟«»‹›`´"', "'"), **dict.fromkeys("‐‑‒–—―−", "-")}


@dataclass(frozen=True)
class Sought:
    """A text that is looked for: in NFC; folded, which is never empty; where; and what stands before and after it."""

    text: str
    folded: Folded
    scope: Scope
    prefix: str = ""
    suffix: str = ""

    @property
    def words(self) -> bool:
        """It is short: only whole words count."""
        return len(self.folded.codes) < LONG


@dataclass(frozen=True)
class Place:
    """Folded positions `low` … `high` − 1, which are the characters `start` … `end` − 1 of a document's text."""

    low: int
    high: int
    document: int
    start: int
    end: int
    exact: bool = False
    score: float = 1.0


def same_place(sought: Sought, position: int, index: QuoteIndex) -> Place | None:
    """The place of a text whose folded characters stand at a folded position; None if it is not the same text."""
    quote, size = sought.folded, len(sought.folded.codes)
    piece, at = index.piece(position, position + size)
    text, last = index.text(index.document(position)), at + size - 1
    if (piece.codes[at : last + 1] != quote.codes).any():
        return None
    if not piece.whole[at] or (last + 1 < len(piece.codes) and piece.origin[last + 1] == piece.origin[last]):
        return None  # A part of a character, such as the i of a ligature.
    if size < LONG and _other_words(sought, piece, at, text):
        return None
    start, end = int(piece.origin[at]), int(piece.origin[last]) + 1
    lead = int(quote.origin[0])
    number = index.document(position)
    stripped = sought.text.strip()
    blanks = len(sought.text) - len(sought.text.lstrip())
    for given, before in ((sought.text, lead), (stripped, lead - blanks)):
        if start >= before and text.startswith(given, start - before):
            begin = start - before
            return Place(position, position + size, number, begin, begin + len(given), exact=True)
    start, end = with_marks(sought, text, start, end)
    return Place(position, position + size, number, start, end)


def similar_place(sought: Sought, low: int, high: int, score: float, index: QuoteIndex) -> Place:
    """The place of a similar text at folded positions low … high − 1."""
    piece, at = index.piece(low, high)
    number = index.document(low)
    start, end = int(piece.origin[at]), int(piece.origin[at + high - low - 1]) + 1
    start, end = with_marks(sought, index.text(number), start, end)
    return Place(low, high, number, start, end, score=score)


def with_marks(sought: Sought, text: str, start: int, end: int) -> tuple[int, int]:
    """A place with the punctuation around it, as far as the quote has the same at its ends.

    An ellipsis there says that the document goes on.
    """
    head, tail = int(sought.folded.origin[0]), int(sought.folded.origin[-1]) + 1
    for mark in reversed(_marks(sought.text[max(0, head - _MARKS) : head])):
        first = max(0, start - _MARKS)
        at = first + len(text[first:start].rstrip()) - 1
        if at < 0 or _alike(text[at]) != _alike(mark):
            break
        start = at
    for mark in _marks(sought.text[tail : tail + _MARKS]):
        following = text[end : end + _MARKS]
        at = end + len(following) - len(following.lstrip())
        if at >= len(text) or _alike(text[at]) != _alike(mark):
            break
        end = at + 1
    return start, end


def _marks(text: str) -> str:
    return "".join(_ELLIPSIS.sub("", text).split())


def _alike(character: str) -> str:
    return _ALIKE.get(character, character)


def _other_words(sought: Sought, piece: Folded, at: int, text: str) -> bool:
    """Whether only one of quote and document has a blank between two letters, as in `the rapist`."""
    quote = sought.folded
    for i in range(1, len(quote.codes)):
        if quote.starts[i] == piece.starts[at + i]:
            continue
        folded, whole, j = (quote, sought.text, i) if quote.starts[i] else (piece, text, at + i)
        between = whole[int(folded.origin[j - 1]) + 1 : int(folded.origin[j])]
        if between.isspace() and not any(chr(c).isdecimal() for c in quote.codes[i - 1 : i + 1].tolist()):
            return True
    return False
