"""Candidate sources: which texts the candidates of a question are chosen among, and their scores by every expert.

`exhaustive` compares a question with every text of every level. `indexed` searches level 1 twice, by words and by
vectors, and scores the texts of the documents of the best pieces with the same experts; of long documents only those of
the sections with the best pieces. Both give the same score to the same text; what `indexed` may miss is a text whose
section has no piece among the `NEAREST` of either search.

Evidence recall of `fused` is the same within .0006 on three collections (docs/growth.md, benchmarks/sources.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.index.postings import Words
from mog_assets.resources.lazy import cached_property
from mog_assets.search.candidate_search import Source
from mog_assets.search.experts import Bm25Expert, DenseExpert, Expert, OfLevel, Products, TitleExpert
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.section_search import SectionSearch, expert_texts

EXHAUSTIVE, INDEXED = "exhaustive", "indexed"
# Scores of all texts by all experts that are in memory at a time, in bytes.
_BLOCK_BYTES = 256 << 20


@dataclass(frozen=True)
class Exhaustive:
    """All texts.

    Attributes:
        words: BM25 of level 1.
        every: The experts.
    """

    words: Words
    every: Sequence[Expert]

    def blocks(self, questions: int) -> Iterator[slice]:
        """See `candidate_search.Source.blocks`."""
        texts = sum(expert.count for expert in self.every)
        step = max(_BLOCK_BYTES // (4 * max(texts, 1)), 1)
        return (slice(at, min(at + step, questions)) for at in range(0, max(questions, 1), step))

    def experts(self, rows: slice, pieces: np.ndarray) -> Sequence[Expert]:
        """See `candidate_search.Source.experts`."""
        return self.every


class Tiling(Protocol):
    """How texts of one kind cover pieces; see `experts.Expert`."""

    @property
    def depth(self) -> int:
        """See `Expert`."""

    def containing(self, pieces: np.ndarray) -> np.ndarray:
        """See `Expert`."""

    def covered(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Expert`."""


@dataclass(frozen=True)
class Texts:
    """Some texts with their scores for a question, as an expert.

    Attributes:
        name: See `Expert`.
        tiling: Of all texts of the kind.
        numbers: Of these, among all, ascending.
        values: Their scores, float32 of shape (questions, texts).
    """

    name: str
    tiling: Tiling
    numbers: np.ndarray
    values: np.ndarray

    @property
    def depth(self) -> int:
        """See `Expert`."""
        return self.tiling.depth

    @property
    def count(self) -> int:
        """See `Expert`."""
        return len(self.numbers)

    def scores(self, rows: slice) -> np.ndarray:
        """See `Expert.scores`."""
        return self.values

    def containing(self, pieces: np.ndarray) -> np.ndarray:
        """See `Expert.containing`; the pieces are of documents of these texts."""
        return np.searchsorted(self.numbers, self.tiling.containing(pieces))

    def covered(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Expert.covered`."""
        return self.tiling.covered(self.numbers[texts])

    def joined(self, other: Texts) -> Texts:
        """These and other texts; titles may be among both."""
        numbers, first = np.unique(np.concatenate([self.numbers, other.numbers]), return_index=True)
        return replace(self, numbers=numbers, values=np.concatenate([self.values, other.values], 1)[:, first])


class Indexed:
    """The texts of the sections with the best pieces; see `piece_counts.Sections`.

    Args:
        retrieval: The questions.

    Attributes:
        words: BM25 of level 1.
    """

    def __init__(self, retrieval: Retrieval) -> None:
        self.retrieval, self.corpora = retrieval, retrieval.corpora
        self.words, layout = self.corpora.piece_counts.words, self.corpora.layout
        levels = [OfLevel(level, layout) for level in self.corpora.settings.level_range]
        self._kinds: list[tuple[str, Tiling]] = [
            *((f"bm25-{tiling.level}", tiling) for tiling in levels),
            *((f"dense-{tiling.level}", tiling) for tiling in levels),
            ("title", TitleExpert(layout, self.corpora.titles, [])),
        ]
        self._last: _Scored | None = None

    def blocks(self, questions: int) -> Iterator[slice]:
        """See `candidate_search.Source.blocks`: one question at a time."""
        return (slice(at, at + 1) for at in range(questions)) if questions else iter([slice(0, 0)])

    def experts(self, rows: slice, pieces: np.ndarray) -> Sequence[Expert]:
        """See `candidate_search.Source.experts`."""
        if rows.start == rows.stop:
            nothing = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
            return [Texts(name, tiling, *nothing) for name, tiling in self._kinds]
        last = self._last
        if last is None or last.row != rows.start:
            last = _Scored(rows.start, self._searches[rows.start], np.zeros(0, np.int64), [])
            pieces = np.concatenate([pieces, *(hits.pieces for hits in last.search.nearest())])
        missing = np.setdiff1d(self.corpora.sections.containing(pieces), last.sections)
        if len(missing) or not last.experts:
            texts = zip(self._kinds, expert_texts(self.corpora, missing), last.search.values(missing), strict=True)
            experts = [Texts(name, tiling, numbers, values[None]) for (name, tiling), numbers, values in texts]
            if last.experts:
                experts = [one.joined(other) for one, other in zip(last.experts, experts, strict=True)]
            last = replace(last, sections=np.union1d(last.sections, missing), experts=experts)
        self._last = last
        return last.experts

    @cached_property
    def _searches(self) -> Sequence[SectionSearch]:
        questions = zip(self.retrieval.terms, self.retrieval.vectors, strict=True)
        store, allowed = self.retrieval.store(), self.retrieval.allowed
        return [SectionSearch(self.corpora, terms, vector, allowed, store) for terms, vector in questions]


@dataclass(frozen=True)
class _Scored:
    """A question.

    Attributes:
        row: Its number.
        search: Its search.
        sections: Those whose texts are scored, ascending.
        experts: With these texts.
    """

    row: int
    search: SectionSearch
    sections: np.ndarray
    experts: list[Texts]


def _exhaustive(retrieval: Retrieval) -> Exhaustive:
    corpora, layout = retrieval.corpora, retrieval.corpora.layout
    # One index for all that asks it: where indexes are not kept open, each would be made anew.
    words, levels = corpora.joined_bm25(1), corpora.settings.level_range
    pieces = Products(corpora.vectors(1), retrieval.vectors)
    return Exhaustive(
        words,
        [
            Bm25Expert(1, layout, words, retrieval.terms),
            *(Bm25Expert(level, layout, corpora.joined_bm25(level), retrieval.terms) for level in levels[1:]),
            DenseExpert(1, layout, pieces),
            *(DenseExpert(level, layout, pieces, corpora.pooling(level)) for level in levels[1:]),
            TitleExpert(layout, corpora.titles, retrieval.terms),
        ],
    )


SOURCES: dict[str, Callable[[Retrieval], Source]] = {EXHAUSTIVE: _exhaustive, INDEXED: Indexed}


def source_name(corpora: Corpora) -> str:
    """Which source the settings name, or fits the number of pieces."""
    return INDEXED if corpora.indexed else EXHAUSTIVE


def source_of(retrieval: Retrieval) -> Source:
    """The source for some questions."""
    return SOURCES[source_name(retrieval.corpora)](retrieval)
