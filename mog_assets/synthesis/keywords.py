"""Questions made without a model: the rarest words of the most characteristic part of a window."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.chunking.sentences import units
from mog_assets.synthesis.candidates import Candidate
from mog_assets.synthesis.windows import BREADTHS, Window

ORIGIN = "keywords"
# Words of a question.
_WORDS = 5
# Characters that it rests on, at most, unless it rests on one sentence: less than a model may quote, so that questions
# of documents of a few sentences differ by breadth.
_LENGTHS = {"paragraph": 600, "section": 2000}
_WORD = re.compile(r"\w\w+")

Terms = Callable[[Sequence[str]], list[list[str]]]
"""Index terms of each text."""


@dataclass(frozen=True)
class _Word:
    term: str
    start: int
    end: int


def keyword_questions(parts: Sequence[Window], rarity: Callable[[str], float], terms: Terms) -> list[Candidate]:
    """A question for each window that has words enough; it rests on the text that its words stand in.

    Of the sentences of the window, or of runs of them as long as the evidence of its breadth may be, the part is
    chosen whose best words have the greatest sum of tf-idf (frequency in the window times rarity).

    Args:
        parts: The windows.
        rarity: Inverse document frequency of an index term.
        terms: See `Terms`.
    """
    words = _words(parts, terms)
    return [c for part, own in zip(parts, words, strict=True) if (c := _question(part, own, rarity)) is not None]


def _question(part: Window, words: Sequence[_Word], rarity: Callable[[str], float]) -> Candidate | None:
    times = Counter(word.term for word in words)
    weight = {term: count * rarity(term) for term, count in times.items()}
    best: tuple[float, int, int, list[str]] | None = None
    for start, end in _spans(part):
        own = {word.term for word in words if start <= word.start < end}
        chosen = sorted(own, key=lambda term: (-weight[term], term))[:_WORDS]
        score = sum(weight[term] for term in chosen)
        if best is None or score > best[0]:
            best = score, start, end, chosen
    if best is None or not best[3]:
        return None
    _, start, end, chosen = best
    said: dict[str, str] = {}
    for word in words:
        if start <= word.start < end and word.term in chosen:
            said.setdefault(word.term, part.text[word.start : word.end])
    return Candidate(part, " ".join(said.values()), "", (part.text[start:end].strip(),), ORIGIN)


def _spans(part: Window) -> list[tuple[int, int]]:
    """Sentences, or runs of sentences from each on."""
    longest = _LENGTHS.get(part.breadth, BREADTHS[part.breadth].evidence)
    ends = units(part.text, longest)
    starts = np.concatenate([[0], ends[:-1]])
    if part.breadth == "sentence":
        return list(zip(starts.tolist(), ends.tolist(), strict=True))
    # The last sentence that fits after each one.
    last = np.searchsorted(ends, starts + longest, side="right") - 1
    return list(zip(starts.tolist(), ends[last].tolist(), strict=True))


def _words(parts: Sequence[Window], terms: Terms) -> list[list[_Word]]:
    """Words that have an index term, of each window."""
    found = [list(_WORD.finditer(part.text)) for part in parts]
    flat = iter(terms([match.group() for matches in found for match in matches]))
    return [[_Word(own[0], *match.span()) for match in matches if len(own := next(flat)) == 1] for matches in found]
