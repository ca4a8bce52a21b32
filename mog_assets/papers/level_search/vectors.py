"""Vectors of a level, which the papers compare with questions as a whole, and the nearest of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import vector_buckets
from mog_assets.index.vectors import as_float32
from mog_assets.papers.level_search.searchers import keep_best
from mog_assets.resources.lazy import remembered

# Products of questions and chunks that are in memory at a time, in bytes.
_PRODUCTS_BYTES = 256 << 20
# Vectors that are unpacked at a time for few questions: they stay in the processor's cache.
_AT_ONCE, _FEW = 1024, 16


@remembered
def level_vectors(corpora: Corpora, level: int) -> list[list[np.ndarray]]:
    """Return the vectors of a level per corpus, a bucket each: mapped from their file, or pooled from level 1."""
    return [
        [bucket.open() for bucket in vector_buckets(lambda key, name=name: corpora.read(key, name), level)]  # type: ignore[misc]
        for name in corpora.names
    ]


class LevelRows:
    """Vectors of a level of all corpora by their number.

    Args:
        corpora: The corpora.
        level: The level.
    """

    def __init__(self, corpora: Corpora, level: int) -> None:
        self._parts = list(chain.from_iterable(level_vectors(corpora, level)))
        self._starts = np.cumsum([0, *map(len, self._parts)])

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of these chunks, float16 of shape (len(rows), size)."""
        part = np.searchsorted(self._starts, rows, side="right") - 1
        result = np.empty((len(rows), self._parts[0].shape[1]), np.float16)
        for number in np.unique(part):
            here = part == number
            result[here] = self._parts[number][rows[here] - self._starts[number]]
        return result


def nearest(
    parts: Sequence[Sequence[np.ndarray]],
    vectors: np.ndarray,
    k: int,
    groups: np.ndarray | None = None,
    group_of: Sequence[np.ndarray] = (),
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the k nearest chunks of each corpus by products with all vectors.

    Args:
        parts: Unit vectors of each corpus, in order: arrays of shape (chunks, size).
        vectors: Of the questions, shape (questions, size).
        k: How many.
        groups: Group of every question, to find only its chunks; a question below 0 finds none. None finds all.
        group_of: Group of every chunk, per corpus.

    Returns:
        See `searchers.merge`.
    """
    queries, of_corpora = np.asarray(vectors, np.float32), []
    step = _AT_ONCE if len(queries) <= _FEW else max(_PRODUCTS_BYTES // (4 * len(queries)), 1)
    for corpus, arrays in enumerate(parts):
        chunks, scores, first = np.full((len(queries), k), -1, np.int64), np.zeros((len(queries), k)), 0
        for block in (array[at : at + step] for array in arrays for at in range(0, len(array), step)):
            products, last = queries @ as_float32(block, np.empty(block.shape, np.float32)).T, first + len(block)
            if groups is not None:
                products[(groups[:, None] != group_of[corpus][first:last]) | (groups[:, None] < 0)] = -np.inf
            # A text without a vector has one of 0: it is near to nothing.
            products[products == 0] = -np.inf
            keep_best(chunks, scores, products, first)
            first = last
        of_corpora.append((chunks, scores))
    return of_corpora
