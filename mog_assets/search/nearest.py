"""The nearest chunks of corpora: by products with all vectors, or by graphs of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.search.level_search import keep_best

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
    """The k nearest chunks of each corpus by products with all vectors, for many questions at a time.

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
    table, bounds = corpora.vectors(level), [*corpora.starts(level).tolist(), corpora.layout.count(level)]
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


def linked_nearest(
    corpora: Corpora,
    vectors: np.ndarray,
    k: int,
    groups: np.ndarray | None = None,
    group_of: Sequence[np.ndarray] = (),
) -> list[tuple[np.ndarray, np.ndarray]]:
    """As `exactly_nearest` of level 1, but nearly all of the nearest: graphs lead to them, where corpora have any."""
    table, of_corpus, first = corpora.vectors(1), corpora.starts(1).tolist(), 0
    near: list[list[list[np.ndarray]]] = [[[np.zeros(0, np.int64)] for _ in vectors] for _ in corpora.names]
    for shard, owner in zip(corpora.neighbours, corpora.shard_owners, strict=True):
        start = first - of_corpus[owner]
        for row, vector in enumerate(np.asarray(vectors, np.float32)):
            open_to = None
            if groups is not None:
                open_to = (group_of[owner][start : start + shard.count] == groups[row]) & (groups[row] >= 0)
            near[owner][row].append(shard.near(vector, k, open_to) + start)
        first += shard.count
    best = [(np.full((len(vectors), k), -1, np.int64), np.zeros((len(vectors), k))) for _ in corpora.names]
    for (chunks, scores), rows, start in zip(best, near, of_corpus, strict=True):
        for row, parts in enumerate(rows):
            pieces = np.concatenate(parts)
            products = np.vecdot(table.float_rows(start + pieces), np.asarray(vectors[row], np.float32))
            order = np.lexsort((pieces, -products))
            order = order[products[order] != 0][:k]
            chunks[row, : len(order)], scores[row, : len(order)] = pieces[order], products[order]
    return best
