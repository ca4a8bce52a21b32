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

from mog_assets.arrays import greatest
from mog_assets.ranking.candidate_search import Source
from mog_assets.ranking.experts import Bm25Expert, DenseExpert, Expert, OfLevel, Products, TitleExpert
from mog_assets.ranking.retrieve import Retrieval
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.postings import Words

EXHAUSTIVE, INDEXED = "exhaustive", "indexed"
# Pieces of each of the two searches whose documents a question's candidates may be of.
NEAREST = 100
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


@dataclass(frozen=True)
class _Scored:
    """A block of questions.

    Attributes:
        rows: The questions.
        words: Scores of all pieces by words.
        sections: Those whose texts are scored, ascending.
        experts: With these texts.
    """

    rows: slice
    words: np.ndarray
    sections: np.ndarray
    experts: list[Texts]


def _best(scores: np.ndarray, retrieval: Retrieval) -> np.ndarray:
    """The best pieces of any question that may be candidates, given the scores of all."""
    if retrieval.allowed is not None:
        scores = np.where(retrieval.allowed[retrieval.corpora.layout.document_of], scores, 0)
    return np.flatnonzero((greatest(scores, NEAREST) & (scores > 0)).any(axis=0))


class Nearest:
    """Products of questions with the vectors of the pieces near them; see `neighbours`."""

    def __init__(self, retrieval: Retrieval) -> None:
        self.retrieval, self.corpora = retrieval, retrieval.corpora
        self.table = self.corpora.vectors(1)

    def pieces(self, rows: slice) -> np.ndarray:
        """The nearest pieces of the questions; what a filter leaves is found whatever else is nearer."""
        rows_of = range(*rows.indices(len(self.retrieval.queries)))
        return np.unique(np.concatenate([np.zeros(0, np.int64), *map(self._pieces, rows_of)]))

    def _pieces(self, row: int) -> np.ndarray:
        allowed, document_of = self.retrieval.allowed, self.corpora.layout.document_of
        open_to = None if allowed is None else allowed[document_of]
        vector, near = np.asarray(self.retrieval.vectors[row], np.float32), [np.zeros(0, np.int64)]
        for part, first in zip(self.corpora.neighbours, self.corpora.starts(1).tolist(), strict=True):
            of_part = None if open_to is None else open_to[first : first + part.count]
            near.append(part.near(vector, NEAREST, of_part) + first)
        pieces = np.concatenate(near)
        scores = self.of(slice(row, row + 1), pieces)
        return pieces[(greatest(scores, NEAREST) & (scores > 0))[0]]

    def of(self, rows: slice, pieces: np.ndarray) -> np.ndarray:
        """Products with the vectors of some pieces, float32 of shape (questions, pieces)."""
        vectors = np.asarray(self.retrieval.vectors[rows], np.float32)
        return vectors @ self.table.float_rows(pieces).T


class Indexed:
    """The texts of the sections with the best pieces; see `piece_counts.Sections`.

    Args:
        retrieval: The questions.

    Attributes:
        words: BM25 of level 1.
    """

    def __init__(self, retrieval: Retrieval) -> None:
        self.retrieval, self.corpora = retrieval, retrieval.corpora
        self._counts, self._sections = self.corpora.piece_counts, self.corpora.sections
        self.words = self._counts.words
        self._levels = [OfLevel(level, self.corpora.layout) for level in self.corpora.settings.level_range]
        self._words = Bm25Expert(1, self.corpora.layout, self.words, retrieval.terms)
        self._titles = TitleExpert(self.corpora.layout, self.corpora.titles, retrieval.terms)
        self._vectors = Nearest(retrieval)
        self._last: _Scored | None = None

    def blocks(self, questions: int) -> Iterator[slice]:
        """See `candidate_search.Source.blocks`: one question at a time."""
        return (slice(at, at + 1) for at in range(questions)) if questions else iter([slice(0, 0)])

    def experts(self, rows: slice, pieces: np.ndarray) -> Sequence[Expert]:
        """See `candidate_search.Source.experts`."""
        last = self._last
        if last is None or last.rows != rows:
            last = _Scored(rows, self._words.scores(rows), np.zeros(0, np.int64), [])
            pieces = np.concatenate([pieces, _best(last.words, self.retrieval), self._vectors.pieces(rows)])
        missing = np.setdiff1d(self._sections.containing(pieces), last.sections)
        if len(missing) or not last.experts:
            experts = self._scored(last, missing)
            if last.experts:
                experts = [one.joined(other) for one, other in zip(last.experts, experts, strict=True)]
            last = replace(last, sections=np.union1d(last.sections, missing), experts=experts)
        self._last = last
        return last.experts

    def _scored(self, of: _Scored, sections: np.ndarray) -> list[Texts]:
        """The experts with the texts of some sections."""
        by_words, by_vectors = self._by_words(of, sections), self._by_vectors(of, sections)
        documents = np.unique(self._sections.document[sections])
        titles = Texts("title", self._titles, documents, self._titles.scores(of.rows)[:, documents])
        return [*by_words, *by_vectors, titles]

    def _by_words(self, of: _Scored, sections: np.ndarray) -> Iterator[Texts]:
        corpora, options, pieces = self.corpora, self.corpora.settings.bm25, self._sections.chunks(sections, 1)
        terms, owners = self.retrieval.terms[of.rows], corpora.owners[self._sections.document[sections]]
        counts = [self._counts.within(row, sections) for row in terms]
        for tiling in self._levels:
            numbers, values = pieces, of.words[:, pieces]
            if tiling.level > 1:
                numbers = self._sections.chunks(sections, tiling.level)
                over = corpora.weighing(f"level_{tiling.level}")
                values = np.zeros((len(terms), len(numbers)), np.float32)
                for row, counted in zip(values, counts, strict=True):
                    row[:] = counted.scores(tiling.level, over, owners, options.k1, options.b)
            yield Texts(f"bm25-{tiling.level}", tiling, numbers, values)

    def _by_vectors(self, of: _Scored, sections: np.ndarray) -> Iterator[Texts]:
        corpora, pieces = self.corpora, self._sections.chunks(sections, 1)
        of_pieces, vectors = self._vectors.of(of.rows, pieces), np.asarray(self.retrieval.vectors[of.rows], np.float32)
        for tiling in self._levels:
            numbers, values = pieces, of_pieces
            if tiling.level > 1:
                numbers, pooling = self._sections.chunks(sections, tiling.level), corpora.pooling(tiling.level)
                if pooling is None:
                    values = vectors @ corpora.vectors(tiling.level).float_rows(numbers).T
                else:
                    first = np.searchsorted(pieces, pooling.first[numbers])
                    values = pooling.within(numbers, first, pieces).pooled(of_pieces)
            yield Texts(f"dense-{tiling.level}", tiling, numbers, values)


def _exhaustive(retrieval: Retrieval) -> Exhaustive:
    corpora, layout = retrieval.corpora, retrieval.corpora.layout
    # One index for all that asks it: where indexes are not kept open, each would be made anew.
    words, levels = corpora.joined_bm25(1), corpora.settings.level_range
    pieces = Products(corpora.vectors(1), retrieval.vectors)
    dense = [DenseExpert(1, layout, pieces)]
    for level in levels[1:]:
        pooling = corpora.pooling(level)
        products = pieces if pooling else Products(corpora.vectors(level), retrieval.vectors)
        dense.append(DenseExpert(level, layout, products, pooling))
    return Exhaustive(
        words,
        [
            Bm25Expert(1, layout, words, retrieval.terms),
            *(Bm25Expert(level, layout, corpora.joined_bm25(level), retrieval.terms) for level in levels[1:]),
            *dense,
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
