"""Search the chunks of one level over the corpora of a question set: BM25, dense, or both fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mog_assets.papers.level_search.bm25 import Bm25Index
from mog_assets.papers.level_search.fusion import reciprocal_rank_fusion
from mog_assets.resources.arrays import greatest, places


@dataclass(frozen=True)
class LevelMatches:
    """Chunks of one level found for questions, ordered by question, best first; equal scores go to the earlier chunk.

    Attributes:
        question: int64 array of shape (n,): position of the question.
        chunk: int64 array of shape (n,): chunk of the level over all corpora, in their order.
        score: float64 array of shape (n,).
    """

    question: np.ndarray
    chunk: np.ndarray
    score: np.ndarray

    def at(self, rows: np.ndarray) -> LevelMatches:
        """Return some rows: a mask, or positions in order."""
        return LevelMatches(self.question[rows], self.chunk[rows], self.score[rows])

    def best_per_corpus(self, k: int, starts: np.ndarray) -> LevelMatches:
        """Return the k best chunks of every corpus.

        Args:
            k: How many.
            starts: First chunk of every corpus at this level, ascending.
        """
        group = self.question * len(starts) + np.searchsorted(starts, self.chunk, side="right") - 1
        order = np.argsort(group, kind="stable")
        return self.at(np.sort(order[places(group[order]) < k]))


class Searcher(Protocol):
    """Finds chunks of a level."""

    def search(self, level: int, k: int) -> LevelMatches:
        """Return for every question, the k best chunks of each corpus."""


def merge(chunks: Sequence[np.ndarray], scores: Sequence[np.ndarray], starts: np.ndarray) -> LevelMatches:
    """Return hits over corpora, or shards of them, from those of each; their scores are compared unchanged.

    Args:
        chunks: For each corpus or shard an int64 array of shape (questions, k): its chunks, −1 if there is none.
        scores: Likewise, float.
        starts: First chunk of each at this level.
    """
    chunk = np.concatenate([np.where(c >= 0, c + start, -1) for c, start in zip(chunks, starts, strict=True)], axis=1)
    score = np.concatenate(scores, axis=1).astype(np.float64)
    order = np.lexsort((chunk, -score), axis=1)
    chunk, score = np.take_along_axis(chunk, order, 1), np.take_along_axis(score, order, 1)
    question, column = np.nonzero(chunk >= 0)
    return LevelMatches(question, chunk[question, column], score[question, column])


def keep_best(chunks: np.ndarray, scores: np.ndarray, products: np.ndarray, first: int) -> None:
    """Keep the greatest of the products held and of further ones; equal ones go to the earlier chunk.

    Args:
        chunks: Held chunks, best first, −1 if there is none: int64 of shape (questions, k), changed in place.
        scores: Their products, 0 where there is no chunk: likewise.
        products: Of chunks after all of those, shape (questions, n); those of −inf are not kept.
        first: Number of the first of them.
    """
    k = chunks.shape[1]
    rows, columns = np.nonzero(greatest(products, k) & (products > -np.inf))
    values = products[rows, columns]
    order = np.lexsort((columns, -values, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    new, worth = np.full(chunks.shape, -1, np.int64), np.full(chunks.shape, -np.inf)
    new[rows, places(rows)], worth[rows, places(rows)] = columns + first, values
    both = np.concatenate([chunks, new], axis=1)
    values_of_both = np.concatenate([np.where(chunks >= 0, scores, -np.inf), worth], axis=1)
    best = np.argsort(-values_of_both, axis=1, kind="stable")[:, :k]
    chunks[:] = np.take_along_axis(both, best, 1)
    scores[:] = np.where(chunks >= 0, np.take_along_axis(values_of_both, best, 1), 0)


class Bm25Searcher:
    """BM25.

    Args:
        queries: Terms of every question.
        open_indexes: Opens the indexes of all corpora, in order, at a level: one or more per corpus.
        starts: First chunk of each corpus at a level.
        groups: Group of every question, to find only its chunks; None finds all chunks.
        chunk_groups: Group of every chunk of a level, per corpus.
    """

    def __init__(
        self,
        queries: Sequence[Sequence[str]],
        open_indexes: Callable[[int], Sequence[Bm25Index]],
        starts: Callable[[int], np.ndarray],
        groups: np.ndarray | None = None,
        chunk_groups: Callable[[int], Sequence[np.ndarray]] | None = None,
    ) -> None:
        self._queries = queries
        self._open_indexes = open_indexes
        self._starts = starts
        self._groups = groups
        self._chunk_groups = chunk_groups

    def search(self, level: int, k: int) -> LevelMatches:
        """See `Searcher.search`."""
        indexes, starts = self._open_indexes(level), self._starts(level)
        ends = np.cumsum([index.chunks for index in indexes])
        if self._groups is None or self._chunk_groups is None:
            per_index = [index.search(self._queries, k) for index in indexes]
        else:
            pairs = zip(indexes, np.split(np.concatenate(list(self._chunk_groups(level))), ends[:-1]), strict=True)
            per_index = [index.search_within(self._queries, k, self._groups, groups) for index, groups in pairs]
        shards = ends - [index.chunks for index in indexes]
        matches = merge([chunks for chunks, _ in per_index], [scores for _, scores in per_index], shards)
        return matches if len(indexes) == len(starts) else matches.best_per_corpus(k, starts)


class DenseSearcher:
    """Nearest vectors.

    Args:
        vectors: Query vectors, shape (questions, size).
        find: Given level and k, for each corpus the chunks and scores of every query (see `merge`).
        starts: First chunk of each corpus at a level.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        find: Callable[[np.ndarray, int, int], list[tuple[np.ndarray, np.ndarray]]],
        starts: Callable[[int], np.ndarray],
    ) -> None:
        self._vectors = vectors
        self._find = find
        self._starts = starts

    def search(self, level: int, k: int) -> LevelMatches:
        """See `Searcher.search`."""
        per_corpus = self._find(self._vectors, level, k)
        return merge([chunks for chunks, _ in per_corpus], [scores for _, scores in per_corpus], self._starts(level))


class HybridSearcher:
    """Reciprocal rank fusion of other searchers, per level, over all corpora together."""

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        self._searchers = searchers

    def search(self, level: int, k: int) -> LevelMatches:
        """See `Searcher.search`."""
        per_searcher = [searcher.search(level, k) for searcher in self._searchers]
        return LevelMatches(*reciprocal_rank_fusion([(matches.question, matches.chunk) for matches in per_searcher]))


class Remembering:
    """Caches the hits of another searcher per level and depth: all methods of a retriever use the same hits."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._known: dict[tuple[int, int], LevelMatches] = {}

    def search(self, level: int, k: int) -> LevelMatches:
        """See `Searcher.search`."""
        if (level, k) not in self._known:
            self._known[level, k] = self._searcher.search(level, k)
        return self._known[level, k]
