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

from mog_assets.chunking.chunks import Layout
from mog_assets.retrieval.bm25 import Bm25Index
from mog_assets.retrieval.vectors import VectorTable

# How many chunks of levels 1, 2, … give candidates; every further level as the last.
DEPTHS = (40, 24, 16, 10, 8)


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
class _OfLevel:
    """What experts of a level share.

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
class Bm25Expert(_OfLevel):
    """BM25 of a level.

    Attributes:
        indexes: Per corpus.
        queries: Terms of every question.
    """

    indexes: Sequence[Bm25Index]
    queries: Sequence[Sequence[str]]

    @property
    def name(self) -> str:
        """See `Expert`."""
        return f"bm25-{self.level}"

    def scores(self, rows: slice) -> np.ndarray:
        """See `Expert.scores`."""
        return _summed(self.indexes, self.queries[rows])


@dataclass(frozen=True)
class DenseExpert(_OfLevel):
    """Dot products of unit vectors of a level.

    Attributes:
        table: Vectors of the chunks of all corpora.
        queries: Vectors of the questions, shape (questions, size).
    """

    table: VectorTable
    queries: np.ndarray

    @property
    def name(self) -> str:
        """See `Expert`."""
        return f"dense-{self.level}"

    def scores(self, rows: slice) -> np.ndarray:
        """See `Expert.scores`."""
        asked, first = np.asarray(self.queries[rows], np.float32), 0
        found = np.empty((len(asked), len(self.table)), np.float32)
        for part in self.table.parts:
            np.matmul(asked, np.asarray(part, np.float32).T, out=found[:, first : first + len(part)])
            first += len(part)
        return found


@dataclass(frozen=True)
class TitleExpert:
    """Words that question and title of a document share, weighted by how few titles have them.

    Attributes:
        layout: Of all corpora.
        indexes: Of the titles, per corpus.
        queries: Terms of every question.
    """

    layout: Layout
    indexes: Sequence[Bm25Index]
    queries: Sequence[Sequence[str]]
    name: str = "title"
    depth: int = 0

    @property
    def count(self) -> int:
        """See `Expert`."""
        return len(self.layout.documents)

    def scores(self, rows: slice) -> np.ndarray:
        """See `Expert.scores`."""
        return _summed(self.indexes, [sorted(set(terms)) for terms in self.queries[rows]])

    def containing(self, pieces: np.ndarray) -> np.ndarray:
        """See `Expert.containing`."""
        return self.layout.document_of[pieces]

    def covered(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Expert.covered`."""
        return self.layout.offsets[texts], self.layout.offsets[texts + 1]


def _summed(indexes: Sequence[Bm25Index], queries: Sequence[Sequence[str]]) -> np.ndarray:
    found, first = np.zeros((len(queries), sum(index.chunks for index in indexes)), np.float32), 0
    for index in indexes:
        index.add_scores(queries, found[:, first : first + index.chunks])
        first += index.chunks
    return found
