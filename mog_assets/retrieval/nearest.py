"""The nearest chunks of corpora: by products with all vectors, or by a vector store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.points import packed_ids
from mog_assets.retrieval.search import keep_best

# Products of questions and chunks that are in memory at a time, in bytes.
_SCORES_BYTES = 256 << 20
# Chunks that a vector store is asked for, for each that is wanted (see benchmarks/README.md).
_OVERSAMPLED = 2


class Vectors(Protocol):
    """Opens collections of vectors by name and vector size."""

    def open(self, name: str, size: int) -> AbstractContextManager[Any]:
        """A collection."""


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


def nearest(
    corpora: Corpora,
    vector_store: Vectors,
    vectors: np.ndarray,
    level: int,
    k: int,
    where: Sequence[dict[str, int]] | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The k nearest chunks of each corpus, only those whose payload a question's `where` gives; see `merge`.

    The vector store may hold rounded vectors: it is asked for more chunks, which are then compared exactly.
    """
    nearest, table = [], corpora.vectors(level)
    with vector_store.open(f"level_{level}", vectors.shape[1]) as collection:
        for name, number, start in zip(corpora.names, corpora.point_numbers(level), corpora.starts(level), strict=True):
            chunks = np.full((len(vectors), k), -1, np.int64)
            scores = np.zeros((len(vectors), k))
            for row, hits in enumerate(collection.search(name, vectors, _OVERSAMPLED * k, where)):
                # Points of chunks that are being replaced right now are in no manifest.
                near = number.find(packed_ids(identity for identity, _ in hits))
                near = near[near >= 0]
                exact = table.rows(start + near).astype(np.float32) @ np.asarray(vectors[row], np.float32)
                best = np.lexsort((near, -exact))
                best = best[exact[best] != 0][:k]
                chunks[row, : len(best)], scores[row, : len(best)] = near[best], exact[best]
            nearest.append((chunks, scores))
    return nearest
