"""BM25 over the chunks of one level: counts are stored, and terms are weighted when an index is opened.

Weighting takes milliseconds, by the statistics of all corpora that are searched together.
Scores are Lucene's (`bm25s`, method "lucene"); retrieval is bm25s with its numba backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import load_file, save_file

from mog_assets.resources.compiled import keep
from mog_assets.resources.tables import text_array
from mog_assets.resources.tensors import mapped

# Extra results, among which ties at the last place are decided by chunk number.
_SLACK = 8
# Up to this many questions, compiling numba's kernel takes longer than it saves.
_FEW = 64


@dataclass(frozen=True)
class TermCounts:
    """Counts of one level of one shard of a corpus, by column of a sparse matrix of shape (chunks, terms).

    Attributes:
        terms: Sorted.
        indptr, indices, counts: CSC arrays.
        lengths: int64 array of shape (chunks,): tokens of every chunk.
    """

    terms: Sequence[str]
    indptr: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    @property
    def frequencies(self) -> np.ndarray:
        """int64 array of shape (terms,): in how many chunks a term occurs."""
        return np.diff(self.indptr)


@dataclass(frozen=True)
class Statistics:
    """BM25 statistics of a collection: number of chunks, their mean length, document frequency by term."""

    chunks: int
    mean_length: float
    frequencies: Mapping[str, int]

    def frequencies_of(self, terms: Sequence[str]) -> np.ndarray:
        """In how many chunks each term occurs, float64 of shape (terms,): at least in one, as somebody asks."""
        values_of = getattr(self.frequencies, "values_of", None)
        frequencies = values_of(terms) if values_of else [self.frequencies.get(term, 0) for term in terms]
        return np.maximum(np.asarray(frequencies, np.float64), 1)

    def most_frequent(self, count: int) -> tuple[list[str], np.ndarray]:
        """The terms that occur in most chunks, at most `count`, and in how many each does; of equal ones the first."""
        most = getattr(self.frequencies, "most_frequent", None)
        if most:
            terms, counts = most(count)
            return terms, counts
        order = sorted(self.frequencies, key=lambda term: (-self.frequencies[term], term))[:count]
        return order, np.array([self.frequencies[term] for term in order], np.int64)


def numbered(lists: Sequence[Sequence[str]]) -> tuple[list[str], list[np.ndarray]]:
    """The different terms of several lists, in order of their first occurrence, and the number of each term of each."""
    whole = pa.concat_arrays([text_array(terms) for terms in lists]).dictionary_encode()
    codes = np.from_dlpack(whole.indices).astype(np.int64)
    return whole.dictionary.to_pylist(), np.split(codes, np.cumsum([len(terms) for terms in lists])[:-1])


def save_counts(matrix: Any, path: Path) -> None:
    """Write the CSC counts of a level, in the narrowest types that hold them: most counts and many chunks are small."""
    arrays = {
        "frequencies": np.diff(matrix.indptr),
        "chunks": matrix.indices,
        "counts": matrix.data,
        "lengths": np.asarray(matrix.sum(axis=1, dtype=np.int64)).ravel(),
    }
    save_file(
        {name: array.astype(np.min_scalar_type(int(array.max(initial=0)))) for name, array in arrays.items()}, path
    )


def mapped_counts(path: Path, terms: Sequence[str]) -> TermCounts:
    """The counts of a level in the types that they are stored in; entries are read where they are used."""
    stored = mapped(path)
    indptr = np.concatenate([[0], np.cumsum(stored["frequencies"], dtype=np.int64)])
    return TermCounts(terms, indptr, *(stored[name] for name in ("chunks", "counts", "lengths")))


def load_counts(path: Path, terms: Sequence[str]) -> TermCounts:
    """Read the counts of a level."""
    stored = load_file(path)
    indptr = np.concatenate([[0], np.cumsum(stored["frequencies"], dtype=np.int64)])
    narrow = ((stored["chunks"], np.int32), (stored["counts"], np.int32), (stored["lengths"], np.int64))
    return TermCounts(terms, indptr, *(array.astype(kind) for array, kind in narrow))


def statistics(parts: Sequence[TermCounts]) -> Statistics:
    """Statistics of shards, of one or of several corpora, taken together."""
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
    """What a term adds to the score of a chunk that contains it: float32 array of shape (n,), for n pairs of both.

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
    """A bm25s index from existing weights, as CSC arrays of shape (chunks, terms)."""
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


def joined(indexes: Sequence[Bm25Index]) -> Bm25Index:
    """One index of the chunks of several, in order: a question asks for its terms once."""
    if len(indexes) == 1:
        return indexes[0]
    terms, columns = numbered([index.terms for index in indexes])
    # For every term, its part in each index one after the other: where each begins is known from the counts.
    sizes = np.zeros((len(indexes), len(terms)), np.int64)
    for row, column, index in zip(sizes, columns, indexes, strict=True):
        row[column] = np.diff(index.arrays["indptr"])
    indptr = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
    starts = indptr[:-1] + np.cumsum(sizes, axis=0) - sizes
    weights, chunks = np.empty(indptr[-1], np.float32), np.empty(indptr[-1], np.int32)
    first = 0
    for row, column, index in zip(starts, columns, indexes, strict=True):
        arrays = index.arrays
        begin, count = row[column], np.diff(arrays["indptr"])
        to = np.repeat(begin - arrays["indptr"][:-1], count) + np.arange(len(arrays["data"]))
        weights[to], chunks[to] = arrays["data"], arrays["indices"] + first
        first += index.chunks
    return Bm25Index.of(terms, weights, chunks, indptr, first)


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
        """An index from existing weights, as CSC arrays of shape (chunks, terms)."""
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
        """The k best chunks for each query, best first; equal scores go to the smaller chunk number.

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
        """The k best chunks of each query's own group.

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

    def add_scores(self, queries: Sequence[Sequence[str]], out: np.ndarray) -> None:
        """Add to `out`, float32 of shape (queries, chunks), the score of every chunk for every query."""
        for row, query in zip(out, self._ids(queries), strict=True):
            self._add(query, row)

    def _add(self, query: Sequence[int], out: np.ndarray) -> None:
        weights, chunks, starts = (self.arrays[name] for name in ("data", "indices", "indptr"))
        for term in query:
            here = slice(starts[term], starts[term + 1])
            # A chunk occurs once among those of a term.
            out[chunks[here]] += weights[here]

    @property
    def sizes(self) -> np.ndarray:
        """Different terms of every chunk, int64 of shape (chunks,)."""
        return np.bincount(self.arrays["indices"], minlength=self.chunks)

    def chunks_of(self, term: str) -> np.ndarray:
        """The chunks that have a term, ascending."""
        chunks: np.ndarray = self.arrays["indices"][self.entries(term)]
        return chunks

    def entries(self, term: str) -> slice:
        """Where a term's chunks and weights stand in `arrays`."""
        starts, number = self.arrays["indptr"], self._number.get(term)
        return slice(0, 0) if number is None else slice(int(starts[number]), int(starts[number + 1]))

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
        """The best chunks of a query in any order, and their scores."""
        every = np.zeros(self.chunks, np.float32)
        self._add(query, every)
        if mask is not None:
            every *= mask
        # A copy: a view would keep the positions of all chunks in memory.
        nearest = np.argpartition(-every, depth - 1)[:depth].copy()
        return nearest, every[nearest]
