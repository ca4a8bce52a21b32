"""BM25 over the chunks of one level, as the papers search: terms are weighted when an index is opened.

Weighting takes milliseconds, by the statistics of all corpora that are searched together.
Scores are Lucene's (`bm25s`, method "lucene"); retrieval is bm25s with its numba backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from mog_assets.index.statistics import StoredStatistics, Together
from mog_assets.index.term_counts import TermCounts
from mog_assets.papers.compiled import keep

# Extra results, among which ties at the last place are decided by chunk number.
_SLACK = 8
# Up to this many questions, compiling numba's kernel takes longer than it saves.
_FEW = 64


@dataclass(frozen=True)
class Statistics:
    """BM25 statistics of a collection: number of chunks, their mean length, document frequency by term."""

    chunks: int
    mean_length: float
    frequencies: Mapping[str, int] | Together

    @classmethod
    def stored(cls, stored: StoredStatistics, kind: str) -> Statistics:
        """Return the stored statistics of the texts of one kind, such as `level_1`."""
        return cls(stored.texts[kind], stored.mean_lengths[kind], stored.frequencies(kind))

    def frequencies_of(self, terms: Sequence[str]) -> np.ndarray:
        """Return in how many chunks each term occurs, float64 of shape (terms,): at least in one, as somebody asks."""
        counts = self.frequencies
        times = counts.values_of(terms) if isinstance(counts, Together) else [counts.get(term, 0) for term in terms]
        return np.maximum(np.asarray(times, np.float64), 1)


def statistics(parts: Sequence[TermCounts]) -> Statistics:
    """Return statistics of shards, of one or of several corpora, taken together."""
    chunks = sum(len(p.lengths) for p in parts)
    total = sum(int(p.lengths.sum()) for p in parts)
    frequencies: dict[str, int] = {}
    for part in parts:
        for term, frequency in zip(part.terms, part.frequencies.tolist(), strict=True):
            frequencies[term] = frequencies.get(term, 0) + frequency
    return Statistics(chunks, total / max(chunks, 1), frequencies)


def term_weights(
    counts: np.ndarray,
    frequencies: np.ndarray,
    lengths: np.ndarray,
    chunks: int,
    mean_length: float,
    k1: float,
    b: float,
) -> np.ndarray:
    """Return what a term adds to the score of a chunk that contains it: float32 of shape (n,), for n pairs of both.

    Args:
        counts: How often the chunk contains the term, shape (n,).
        frequencies: Number of chunks that contain the term, shape (n,).
        lengths: Tokens of the chunk, shape (n,).
        chunks: Number of all chunks.
        mean_length: Their mean tokens.
        k1: Term frequency saturation.
        b: Length normalisation.

    References: Lucene's form of BM25 (Kamphuis et al. 2020), as in `bm25s`.
    """
    tf, frequency = counts.astype(np.float64), frequencies.astype(np.float64)
    idf = np.log1p((chunks - frequency + 0.5) / (frequency + 0.5))
    return (idf * tf / (tf + k1 * (1 - b + b * lengths / max(mean_length, 1e-9)))).astype(np.float32)


def open_bm25s(weights: np.ndarray, indices: np.ndarray, indptr: np.ndarray, chunks: int) -> Any:
    """Return a bm25s index from existing weights, as CSC arrays of shape (chunks, terms)."""
    import bm25s

    index = bm25s.BM25(method="lucene", backend="numba")
    index.scores = {
        "data": weights,
        "indices": indices,
        "indptr": indptr,
        "num_docs": chunks,
    }
    index.nonoccurrence_array = None
    index.unique_token_ids_set = set(range(len(indptr) - 1))
    return index


@cache
def keep_kernel() -> None:
    """Let numba cache bm25s's compiled kernel on disk: compiling it takes longer than ranking for 10,000 questions."""
    from bm25s.numba import retrieve_utils

    keep(getattr(retrieve_utils, "_retrieve_internal_jitted_serial", None))


class Bm25Index:
    """Scores of every (term, chunk) of one level of one shard of a corpus, ready for retrieval.

    Args:
        counts: Of the shard.
        over: The statistics that weight it: those of whole corpora.
        k1: Term frequency saturation.
        b: Length normalisation.

    Attributes:
        terms: Whose weights it has.
        chunks: How many there are.
        arrays: `data` (float32 weights), `indices` and `indptr`, as those of a CSC matrix of shape (chunks, terms).
    """

    def __init__(self, counts: TermCounts, over: Statistics, k1: float, b: float) -> None:
        frequency = over.frequencies_of(counts.terms)
        lengths = counts.lengths[counts.indices]
        repeated = np.repeat(frequency, counts.frequencies)
        weights = term_weights(counts.counts, repeated, lengths, over.chunks, over.mean_length, k1, b)
        self._hold(counts.terms, weights, counts.indices, counts.indptr, len(counts.lengths))

    @classmethod
    def of(
        cls, terms: Sequence[str], weights: np.ndarray, indices: np.ndarray, indptr: np.ndarray, chunks: int
    ) -> Bm25Index:
        """Return an index from existing weights, as CSC arrays of shape (chunks, terms)."""
        index = cls.__new__(cls)
        index._hold(terms, weights, indices, indptr, chunks)
        return index

    def _hold(
        self, terms: Sequence[str], weights: np.ndarray, indices: np.ndarray, indptr: np.ndarray, chunks: int
    ) -> None:
        self.terms, self.chunks = terms, chunks
        indices, indptr = np.ascontiguousarray(indices), np.ascontiguousarray(indptr)
        self.arrays = {"data": weights, "indices": indices, "indptr": indptr}

    @cached_property
    def _number(self) -> dict[str, int]:
        return {term: i for i, term in enumerate(self.terms)}

    @cached_property
    def _index(self) -> Any:
        return open_bm25s(self.arrays["data"], self.arrays["indices"], self.arrays["indptr"], self.chunks)

    def search(self, queries: Sequence[Sequence[str]], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best chunks for each query, best first; equal scores go to the smaller chunk number.

        Args:
            queries: Terms of n queries.
            k: How many chunks.

        Returns:
            Chunks, int64 of shape (n, k), −1 where fewer than k chunks score above 0; and float32 scores.
        """
        return self._search(self._ids(queries), k, None, len(queries) >= _FEW)

    def search_within(
        self, queries: Sequence[Sequence[str]], k: int, groups: np.ndarray, group_of: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best chunks of each query's own group.

        Args:
            queries: Terms of n queries.
            k: How many chunks.
            groups: Group of every query, int array of shape (n,); a query with a group below 0 gets no chunk.
            group_of: Group of every chunk, int array of shape (chunks,).

        Returns:
            As `search`.
        """
        ids = self._ids(queries)
        chunks, scores = np.full((len(ids), k), -1, np.int64), np.zeros((len(ids), k), np.float32)
        for group in np.intersect1d(groups[groups >= 0], group_of):
            members = np.flatnonzero(groups == group)
            mask = (group_of == group).astype(np.float32)
            chunks[members], scores[members] = self._search([ids[i] for i in members], k, mask, len(ids) >= _FEW)
        return chunks, scores

    def _add(self, query: Sequence[int], out: np.ndarray) -> None:
        weights, chunks, starts = (self.arrays[name] for name in ("data", "indices", "indptr"))
        for term in query:
            here = slice(starts[term], starts[term + 1])
            # A chunk occurs once among those of a term.
            out[chunks[here]] += weights[here]

    def _ids(self, queries: Sequence[Sequence[str]]) -> list[list[int]]:
        return [[self._number[t] for t in query if t in self._number] for query in queries]

    def _search(
        self, ids: Sequence[list[int]], k: int, mask: np.ndarray | None, compiled: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        chunks = np.full((len(ids), k), -1, np.int64)
        scores = np.zeros((len(ids), k), np.float32)
        filled = [i for i, query in enumerate(ids) if query]
        if not filled:
            return chunks, scores
        depth = min(k + _SLACK, self.chunks)
        if compiled:
            keep_kernel()
            # One thread: numba's OpenMP threads would load the system's libgomp, and with that instead of its own
            # torch's bf16 attention on the CPU is 20 times slower (numba 0.68, torch 2.13).
            result = self._index.retrieve(
                [ids[i] for i in filled], k=depth, show_progress=False, n_threads=1, weight_mask=mask
            )
            chunks_found, values = result.documents.astype(np.int64), result.scores
        else:
            # Only one question's scores of all chunks are in memory at a time.
            best = [self._best(ids[i], depth, mask) for i in filled]
            chunks_found, values = (np.stack(columns) for columns in zip(*best, strict=True))
        order = np.lexsort((chunks_found, -values), axis=1)[:, :k]
        chunks_found, values = np.take_along_axis(chunks_found, order, 1), np.take_along_axis(values, order, 1)
        chunks_found[values <= 0] = -1
        width = chunks_found.shape[1]
        chunks[filled, :width] = chunks_found
        scores[filled, :width] = np.maximum(values, 0)
        return chunks, scores

    def _best(self, query: list[int], depth: int, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the best chunks of a query in any order, and their scores."""
        every = np.zeros(self.chunks, np.float32)
        self._add(query, every)
        if mask is not None:
            every *= mask
        # A copy: a view would keep the positions of all chunks in memory.
        nearest = np.argpartition(-every, depth - 1)[:depth].copy()
        return nearest, every[nearest]
