"""Experts: each gives every candidate a score, computed exactly whatever was retrieved.

The mix of the paper knows the scores of the few chunks that each level retrieved and counts 0 for all others, so most
candidates are compared by accident. An expert here is a retriever at a level, or anything else that scores texts which
pieces lie in: `title` scores documents by their titles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mog_assets.index.postings import Words
from mog_assets.index.vectors import Pooling, VectorTable
from mog_assets.text.chunks import Layout

# How many chunks of levels 1, 2, … give candidates; every further level as the last.
DEPTHS = (40, 24, 16, 10, 8)


def kind(name: str) -> str:
    """The kind of an expert by its name: `bm25` of `bm25-1`."""
    return name.partition("-")[0]


def of_texts(experts: Sequence[str]) -> np.ndarray:
    """Which experts are a retriever at a level, bool of shape (experts,)."""
    return np.array([kind(name) in ("bm25", "dense") for name in experts], bool)


class Expert(Protocol):
    """Scores the texts of one kind for questions: chunks of a level, or documents.

    Attributes:
        name: Retriever and level, such as `bm25-1`, or `title`.
        depth: How many of its best texts give candidates; 0 if none does.
        count: Number of its texts, over all corpora in their order.
    """

    @property
    def name(self) -> str:
        """See above."""

    @property
    def depth(self) -> int:
        """See above."""

    @property
    def count(self) -> int:
        """See above."""

    def scores(self, rows: slice) -> np.ndarray:
        """The score of every text for some questions, float32 of shape (questions, texts)."""

    def containing(self, pieces: np.ndarray) -> np.ndarray:
        """The text that each piece lies in."""

    def covered(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and last-plus-one piece of texts."""


@dataclass(frozen=True)
class OfLevel:
    """How the chunks of a level cover pieces: what its experts share.

    Attributes:
        level: Level of the chunks.
        layout: Of all corpora.
    """

    level: int
    layout: Layout

    @property
    def depth(self) -> int:
        """See `Expert`."""
        return DEPTHS[min(self.level, len(DEPTHS)) - 1]

    @property
    def count(self) -> int:
        """See `Expert`."""
        return self.layout.count(self.level)

    def containing(self, pieces: np.ndarray) -> np.ndarray:
        """See `Expert.containing`."""
        return self.layout.containing(pieces, self.level)

    def covered(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Expert.covered`."""
        return self.layout.covered(texts, self.level)


@dataclass(frozen=True)
class Bm25Expert(OfLevel):
    """BM25 of a level.

    Attributes:
        index: Of all corpora.
        queries: Terms of every question.
    """

    index: Words
    queries: Sequence[Sequence[str]]

    @property
    def name(self) -> str:
        """See `Expert`."""
        return f"bm25-{self.level}"

    def scores(self, rows: slice) -> np.ndarray:
        """See `Expert.scores`."""
        return _summed(self.index, self.queries[rows])


class Products:
    """Products of questions with the vectors of all pieces; the last ones are kept, because every level needs them.

    Args:
        table: Vectors of the pieces of all corpora.
        queries: Vectors of the questions, shape (questions, size).
    """

    def __init__(self, table: VectorTable, queries: np.ndarray) -> None:
        self.table, self.queries = table, queries
        self._last: tuple[slice | None, np.ndarray] = (None, np.zeros(0))

    def of(self, rows: slice) -> np.ndarray:
        """float32 array of shape (questions, pieces)."""
        if self._last[0] != rows:
            self._last = (rows, self.table.products(self.queries[rows]))
        return self._last[1]


@dataclass(frozen=True)
class DenseExpert(OfLevel):
    """Dot products of unit vectors of a level.

    Attributes:
        products: With the vectors of level 1.
        pooling: From level 1; None for level 1 itself.
    """

    products: Products
    pooling: Pooling | None = None

    @property
    def name(self) -> str:
        """See `Expert`."""
        return f"dense-{self.level}"

    def scores(self, rows: slice) -> np.ndarray:
        """See `Expert.scores`."""
        products = self.products.of(rows)
        return products if self.pooling is None else self.pooling.pooled(products)


@dataclass(frozen=True)
class TitleExpert:
    """Words that question and title of a document share, weighted by how few titles have them.

    Attributes:
        layout: Of all corpora.
        index: Of the titles of all corpora.
        queries: Terms of every question.
    """

    layout: Layout
    index: Words
    queries: Sequence[Sequence[str]]
    name: str = "title"
    depth: int = 0

    @property
    def count(self) -> int:
        """See `Expert`."""
        return len(self.layout.documents)

    def scores(self, rows: slice) -> np.ndarray:
        """See `Expert.scores`."""
        return _summed(self.index, [sorted(set(terms)) for terms in self.queries[rows]])

    def containing(self, pieces: np.ndarray) -> np.ndarray:
        """See `Expert.containing`."""
        return self.layout.document_of[pieces]

    def covered(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Expert.covered`."""
        return self.layout.offsets[texts], self.layout.offsets[texts + 1]


def _summed(index: Words, queries: Sequence[Sequence[str]]) -> np.ndarray:
    scores = np.zeros((len(queries), index.chunks), np.float32)
    index.add_scores(queries, scores)
    return scores
