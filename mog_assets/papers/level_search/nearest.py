"""The nearest chunks of corpora, by products with all vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.papers.level_search.searchers import keep_best
from mog_assets.papers.level_search.vectors import level_vectors

# Products of questions and chunks that are in memory at a time, in bytes.
_SCORES_BYTES = 256 << 20


def exactly_nearest(
    corpora: Corpora,
    vectors: np.ndarray,
    level: int,
    k: int,
    groups: np.ndarray | None = None,
    group_of: Sequence[np.ndarray] = (),
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the k nearest chunks of each corpus by products with all vectors, for many questions at a time.

    Products are with a block of vectors at a time, of which the best are kept.

    Args:
        corpora: The corpora.
        vectors: Of the questions, shape (questions, size).
        level: The level.
        k: How many.
        groups: Group of every question, to find only its chunks; a question below 0 finds none. None finds all.
        group_of: Group of every chunk, per corpus.

    Returns:
        See `merge`.
    """
    owners = np.concatenate(group_of) if groups is not None else None
    table, bounds = level_vectors(corpora, level), [*corpora.starts(level).tolist(), corpora.layout.count(level)]
    best = [(np.full((len(vectors), k), -1, np.int64), np.zeros((len(vectors), k))) for _ in corpora.names]
    step = max(_SCORES_BYTES // (4 * max(table.widest, 1)), 1)
    for row in range(0, len(vectors), step):
        rows = slice(row, row + step)
        for first, products in table.product_blocks(vectors[rows]):
            last = first + products.shape[1]
            if groups is not None and owners is not None:
                group = groups[rows, None]
                products[(group != owners[first:last]) | (group < 0)] = -np.inf
            # A text without a vector has one of 0: it is near to nothing.
            products[products == 0] = -np.inf
            for (chunks, scores), begin, end in zip(best, bounds[:-1], bounds[1:], strict=True):
                low, high = max(begin, first), min(end, last)
                if low < high:
                    keep_best(chunks[rows], scores[rows], products[:, low - first : high - first], low - begin)
    return best
