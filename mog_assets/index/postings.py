"""Postings: which texts have a term, and how often, mapped from the files of shards and weighed where a question is.

Opening reads no posting. A question pays for those of its own terms; the weights are those of `bm25.Bm25Index`, to the
bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mog_assets.index.bm25 import Bm25Index, Statistics, TermCounts
from mog_assets.index.statistics import idf
from mog_assets.index.term_tables import TermTable
from mog_assets.resources.arrays import greatest


@dataclass(frozen=True)
class Saturation:
    """BM25 as Lucene has it; see `bm25.term_weights`.

    Attributes:
        k1, b: Term frequency saturation and length normalisation.
    """

    k1: float
    b: float

    def norms(self, lengths: np.ndarray, over: Statistics) -> np.ndarray:
        """What is added to the count of a term in each text, float64."""
        by_length = np.arange(int(lengths.max(initial=0)) + 1, dtype=np.int64)
        added: np.ndarray = self.k1 * (1 - self.b + self.b * by_length / max(over.mean_length, 1e-9))
        return added[lengths]

    def weights(self, weight: float, counts: np.ndarray, norms: np.ndarray) -> np.ndarray:
        """What a term of a weight adds to the scores of texts, float32; `norms` of the texts are used up."""
        # In place: a question weighs hundreds of thousands of counts.
        times = counts.astype(np.float64)
        norms += times
        times *= weight
        times /= norms
        return times.astype(np.float32)


class Presence:
    """A term adds its weight to every text that has it, however often."""

    def norms(self, lengths: np.ndarray, over: Statistics) -> np.ndarray:
        """See `Saturation.norms`."""
        return lengths

    def weights(self, weight: float, counts: np.ndarray, norms: np.ndarray) -> np.ndarray:
        """See `Saturation.weights`."""
        return np.full(len(counts), weight, np.float32)


@dataclass(frozen=True)
class _Shard:
    """A shard with the statistics that weigh it; its first text has the number `first` among all."""

    counts: TermCounts
    over: Statistics
    first: int
    kind: Saturation | Presence

    @cached_property
    def norms(self) -> np.ndarray:
        return self.kind.norms(self.counts.lengths, self.over)

    @property
    def last(self) -> int:
        return self.first + len(self.counts.lengths)

    def rows(self, terms: Sequence[str]) -> np.ndarray:
        table: TermTable = self.counts.terms  # type: ignore[assignment]
        return table.rows(terms)

    def entries(self, terms: Sequence[str]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The places of terms that it has, with their texts, numbered in the shard, ascending, and how often."""
        rows = self.rows(terms)
        for place in np.flatnonzero(rows >= 0).tolist():
            first, last = self.counts.indptr[rows[place] : rows[place] + 2].tolist()
            # Titles have few of the terms.
            if first < last:
                yield place, self.counts.indices[first:last], self.counts.counts[first:last]

    def add_scores(self, terms: Sequence[str], scores: np.ndarray) -> None:
        """Add to the score of every text of the shard what terms add, in their order: sums of floats depend on it."""
        weights = idf(self.over.chunks, self.over.frequencies_of(terms)).tolist()
        for place, texts, counts in self.entries(terms):
            at = texts.astype(np.intp)
            added = self.kind.weights(weights[place], counts, self.norms.take(at))
            added += scores.take(at)
            scores[at] = added


class Postings:
    """The texts of some shards, one after the other.

    Args:
        parts: Mapped counts of each shard; see `shards.open_counts`.
        over: The statistics that weigh them.
        kind: How a term is weighed.

    Attributes:
        chunks: How many texts there are.
    """

    def __init__(self, parts: Sequence[TermCounts], over: Statistics, kind: Saturation | Presence) -> None:
        firsts = np.cumsum([0, *(len(part.lengths) for part in parts)]).tolist()
        self.chunks: int = firsts[-1]
        self._shards = [_Shard(part, over, first, kind) for part, first in zip(parts, firsts[:-1], strict=True)]

    @property
    def sizes(self) -> np.ndarray:
        """Different terms of every text, int64."""
        parts = [np.bincount(shard.counts.indices, minlength=len(shard.counts.lengths)) for shard in self._shards]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def add_scores(self, queries: Sequence[Sequence[str]], out: np.ndarray) -> None:
        """See `bm25.Bm25Index.add_scores`."""
        for scores, terms in zip(out, queries, strict=True):
            for shard in self._shards:
                shard.add_scores(terms, scores[shard.first : shard.last])

    def chunks_of(self, term: str) -> np.ndarray:
        """The texts that have a term, ascending."""
        parts = [
            texts.astype(np.int64) + shard.first for shard in self._shards for _, texts, _ in shard.entries([term])
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def counts_in(self, terms: Sequence[str], texts: np.ndarray) -> np.ndarray:
        """How often some texts, ascending, have terms: float64 of shape (terms, texts)."""
        counts = np.zeros((len(terms), len(texts)))
        for shard in self._shards:
            low, high = np.searchsorted(texts, [shard.first, shard.last])
            for place, having, times in shard.entries(terms):
                # Of the same type: another would make a copy of all of them.
                wanted = (texts[low:high] - shard.first).astype(having.dtype)
                at = np.minimum(np.searchsorted(having, wanted), len(having) - 1)
                counts[place, low:high] = np.where(having[at] == wanted, times[at], 0)
        return counts

    def lengths_of(self, texts: np.ndarray) -> np.ndarray:
        """Tokens of some texts, ascending, int64."""
        parts = [np.zeros(0, np.int64)]
        for shard in self._shards:
            low, high = np.searchsorted(texts, [shard.first, shard.last])
            parts.append(shard.counts.lengths[texts[low:high] - shard.first].astype(np.int64))
        return np.concatenate(parts)

    def holds(self, terms: Sequence[str]) -> np.ndarray:
        """Which of some terms any text has, bool of shape (terms,)."""
        return np.any([np.zeros(len(terms), bool), *(shard.rows(terms) >= 0 for shard in self._shards)], axis=0)

    def search(self, queries: Sequence[Sequence[str]], k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `bm25.Bm25Index.search`."""
        return self._search(queries, k, [None] * len(queries))

    def search_within(
        self, queries: Sequence[Sequence[str]], k: int, groups: np.ndarray, group_of: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `bm25.Bm25Index.search_within`."""
        return self._search(queries, k, [group_of == group if group >= 0 else group_of < group for group in groups])

    def _search(
        self, queries: Sequence[Sequence[str]], k: int, open_to: Sequence[np.ndarray | None]
    ) -> tuple[np.ndarray, np.ndarray]:
        chunks, scores = np.full((len(queries), k), -1, np.int64), np.zeros((len(queries), k), np.float32)
        for row, (query, mask) in enumerate(zip(queries, open_to, strict=True)):
            every = np.zeros((1, self.chunks), np.float32)
            self.add_scores([query], every)
            if mask is not None:
                every *= mask
            best = np.flatnonzero(greatest(every, k)[0] & (every[0] > 0))
            best = best[np.lexsort((best, -every[0, best]))]
            chunks[row, : len(best)], scores[row, : len(best)] = best, every[0, best]
        return chunks, scores


Words = Bm25Index | Postings
"""BM25 of some texts: weighed when it is opened, for small collections, or where a question is."""
