"""Search the chunks of one level over the corpora of a question set: BM25, dense, or both fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mog_assets.retrieval.bm25 import Bm25Index
from mog_assets.retrieval.fusion import reciprocal_rank_fusion


@dataclass(frozen=True)
class Hits:
    """Chunks of one level found for one question, best first; equal scores go to the earlier corpus and chunk.

    Attributes:
        corpus: int64 array: position of the corpus in the question set.
        chunk: int64 array: chunk of the level in that corpus.
        score: float64 array.
    """

    corpus: np.ndarray
    chunk: np.ndarray
    score: np.ndarray

    def best_per_corpus(self, k: int) -> Hits:
        """The k best chunks of every corpus."""
        kept = [np.flatnonzero(self.corpus == corpus)[:k] for corpus in np.unique(self.corpus)]
        rows = np.concatenate(kept) if kept else np.zeros(0, np.int64)
        rows = np.sort(rows)
        return Hits(self.corpus[rows], self.chunk[rows], self.score[rows])


class Searcher(Protocol):
    """Finds chunks of a level."""

    def search(self, level: int, k: int) -> list[Hits]:
        """For every question, the k best chunks of each corpus."""


def merge(chunks: Sequence[np.ndarray], scores: Sequence[np.ndarray]) -> list[Hits]:
    """Hits over corpora from those of each corpus; scores of different corpora are compared as they are.

    Args:
        chunks: For each corpus an int64 array of shape (questions, k), −1 where there is none.
        scores: Likewise, float.
    """
    corpus = np.concatenate([np.full_like(c, i) for i, c in enumerate(chunks)], axis=1)
    chunk = np.concatenate(chunks, axis=1)
    score = np.concatenate(scores, axis=1).astype(np.float64)
    score[chunk < 0] = -np.inf
    order = np.lexsort((chunk, corpus, -score), axis=1)
    hits: list[Hits] = []
    for row, found in zip(order, (chunk >= 0).sum(axis=1), strict=True):
        kept = row[:found]
        number = len(hits)
        hits.append(Hits(corpus[number, kept], chunk[number, kept], score[number, kept]))
    return hits


class Bm25Searcher:
    """BM25.

    Args:
        queries: Terms of every question.
        open_indexes: Opens the index of each corpus, in order, at a level.
    """

    def __init__(self, queries: Sequence[Sequence[str]], open_indexes: Callable[[int], Sequence[Bm25Index]]) -> None:
        self._queries = queries
        self._open_indexes = open_indexes

    def search(self, level: int, k: int) -> list[Hits]:
        """See `Searcher.search`."""
        found = [index.search(self._queries, k) for index in self._open_indexes(level)]
        return merge([chunks for chunks, _ in found], [scores for _, scores in found])


class DenseSearcher:
    """Nearest vectors.

    Args:
        vectors: Query vectors, shape (questions, size).
        find: Given level and k, for each corpus the chunks and scores of every query (see `merge`).
    """

    def __init__(
        self,
        vectors: np.ndarray,
        find: Callable[[np.ndarray, int, int], list[tuple[np.ndarray, np.ndarray]]],
    ) -> None:
        self._vectors = vectors
        self._find = find

    def search(self, level: int, k: int) -> list[Hits]:
        """See `Searcher.search`."""
        found = self._find(self._vectors, level, k)
        return merge([chunks for chunks, _ in found], [scores for _, scores in found])


class HybridSearcher:
    """Reciprocal rank fusion of other searchers, per level, over all corpora together."""

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        self._searchers = searchers

    def search(self, level: int, k: int) -> list[Hits]:
        """See `Searcher.search`."""
        rankings = zip(*(searcher.search(level, k) for searcher in self._searchers), strict=True)
        return [_fuse(ranking) for ranking in rankings]


class Remembering:
    """Asks another searcher once per level and depth: every method of a retriever uses the same hits."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._known: dict[tuple[int, int], list[Hits]] = {}

    def search(self, level: int, k: int) -> list[Hits]:
        """See `Searcher.search`."""
        if (level, k) not in self._known:
            self._known[level, k] = self._searcher.search(level, k)
        return self._known[level, k]


def _fuse(rankings: Sequence[Hits]) -> Hits:
    keys, scores = reciprocal_rank_fusion([(r.corpus << 40) | r.chunk for r in rankings])
    return Hits(keys >> 40, keys & (2**40 - 1), scores)
