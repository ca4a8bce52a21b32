"""Postings: which texts have a term, and how often, mapped from the files of shards and weighed where a question is.

Opening reads no posting. A question looks its terms up in the vocabularies of all shards (`Terms`) and reads their
postings, once: `Matches` are what all steps of a search know of words. Scores are Lucene's form of BM25 (Kamphuis et
al. 2020). What weighs terms are statistics: in how many texts of all corpora that are searched together each occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mog_assets.index.term_counts import TermCounts
from mog_assets.index.term_tables import TermTable
from mog_assets.resources.lazy import cached_property

# Up to so many terms of all tables, a dictionary takes a fifth of a second and some megabytes.
_SMALL = 1 << 18
# Lookups that are remembered, and of how many terms at most.
_REMEMBERED, _FEW = 64, 10_000


class Terms:
    """Looks terms up in several tables at once.

    Args:
        tables: The tables.
    """

    def __init__(self, tables: Sequence[TermTable]) -> None:
        self.tables = tables
        # The terms of a question are looked up for pieces, titles and spelling.
        self._remembered = lru_cache(_REMEMBERED)(self._by_hash)

    @cached_property
    def numbers(self) -> dict[str, int] | None:
        """A number for each term, in the order of the tables; None of terms too many for a dictionary."""
        if sum(map(len, self.tables)) > _SMALL:
            return None
        number: dict[str, int] = {}
        for table in self.tables:
            for term in table:
                number.setdefault(term, len(number))
        return number

    @cached_property
    def _rows(self) -> np.ndarray:
        """Rows of numbered terms in each table, and a column of −1 for those without a number."""
        assert self.numbers is not None
        rows = np.full((len(self.tables), len(self.numbers) + 1), -1, np.int32)
        for place, table in enumerate(self.tables):
            rows[place, self.numbered(table)] = np.arange(len(table))
        return rows

    def numbered(self, terms: Iterable[str]) -> list[int]:
        """Return the numbers of some terms, −1 of those that no table has."""
        assert self.numbers is not None
        number = self.numbers.get
        return [number(term, -1) for term in terms]

    def rows(self, terms: Sequence[str]) -> np.ndarray:
        """Return rows of some terms in each table, −1 where they are not there: integers of shape (tables, terms)."""
        if self.numbers is not None:
            return self._rows[:, self.numbered(terms)]
        return self._remembered(tuple(terms)) if len(terms) < _FEW else self._by_hash(terms)

    def _by_hash(self, terms: Sequence[str]) -> np.ndarray:
        rows = np.full((len(self.tables), len(terms)), -1, np.int64)
        for place, table in enumerate(self.tables):
            rows[place] = table.rows(terms)
        rows.flags.writeable = False
        return rows


class Sums:
    """Numbers of terms that stand in the columns of several tables, added up over these.

    Args:
        terms: Looks terms up in the tables.
        columns: Some columns of each table, all of numbers of 0 or more.
    """

    def __init__(self, terms: Terms, columns: Sequence[Sequence[np.ndarray]]) -> None:
        self._terms, self._columns, self._count = terms, columns, len(columns[0]) if columns else 1

    @cached_property
    def _every(self) -> np.ndarray:
        """The sums of numbered terms, and 0 for those without a number."""
        assert self._terms.numbers is not None
        every = np.zeros((self._count, len(self._terms.numbers) + 1), np.int64)
        for table, columns in zip(self._terms.tables, self._columns, strict=True):
            every[:, self._terms.numbered(table)] += columns
        return every

    def of(self, terms: Sequence[str]) -> np.ndarray:
        """Return sums of some terms, 0 of those that no table has: int64 array of shape (columns, terms)."""
        if self._terms.numbers is not None:
            return self._every[:, self._terms.numbered(terms)]
        total = np.zeros((self._count, len(terms)), np.int64)
        for columns, rows in zip(self._columns, self._terms.rows(terms), strict=True):
            at = np.flatnonzero(rows >= 0)
            total[:, at] += [column[rows[at]] for column in columns]
        return total

    def values_of(self, terms: Sequence[str]) -> np.ndarray:
        """Return sums of some terms in the first columns, 0 of those that no table has: int64 of shape (terms,)."""
        values: np.ndarray = self.of(terms)[0]
        return values


class Postings:
    """The texts of some shards, one after the other.

    Args:
        shards: Mapped counts of each shard.
        terms: Looks terms up in the vocabularies of the shards.

    Attributes:
        count: How many texts there are.
    """

    def __init__(self, shards: Sequence[TermCounts], terms: Terms) -> None:
        self.shards, self._terms = shards, terms
        self._bounds = np.cumsum([0, *(len(shard.lengths) for shard in shards)])
        self.count = int(self._bounds[-1])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Different terms of every text, int64."""
        parts = [np.bincount(shard.indices, minlength=len(shard.lengths)) for shard in self.shards]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of every text, int64."""
        return np.concatenate([np.zeros(0, np.int64), *(shard.lengths.astype(np.int64) for shard in self.shards)])

    def matches(self, terms: Sequence[str]) -> Matches:
        """Read the postings of the terms of a question, repetitions included."""
        distinct = list(dict.fromkeys(terms))
        rows = self._terms.rows(distinct)
        shard, place = np.nonzero(rows >= 0)
        texts, counts, sizes = [np.zeros(0, np.int32)], [np.zeros(0, np.uint8)], list[int]()
        for of_shard, row in zip(shard.tolist(), rows[shard, place].tolist(), strict=True):
            part = self.shards[of_shard]
            begin, end = part.indptr[row : row + 2].tolist()
            texts.append(part.indices[begin:end])
            counts.append(part.counts[begin:end])
            sizes.append(end - begin)
        number = {term: place for place, term in enumerate(distinct)}
        text = np.concatenate(texts).astype(np.int64)
        text += np.repeat(self._bounds[shard], sizes)
        return Matches(
            self,
            distinct,
            [number[term] for term in terms],
            np.repeat(place, sizes),
            text,
            np.concatenate(counts),
        )


@dataclass(frozen=True)
class Matches:
    """The texts that have terms of a question.

    Attributes:
        of: All texts.
        terms: Different ones.
        order: Their places as the question has them, repetitions included.
        place, text, count: A row for each term and text that has it: place of the term, number of the text, how often.
    """

    of: Postings
    terms: Sequence[str]
    order: Sequence[int]
    place: np.ndarray
    text: np.ndarray
    count: np.ndarray

    @cached_property
    def frequencies(self) -> np.ndarray:
        """In how many texts each term is, int64 of shape (terms,)."""
        return np.bincount(self.place, minlength=len(self.terms))

    @cached_property
    def times(self) -> np.ndarray:
        """Return how often the question has each term, int64 of shape (terms,)."""
        return np.bincount(np.array(self.order, np.int64), minlength=len(self.terms))

    def texts_of(self, place: int) -> np.ndarray:
        """Return the texts that have a term, ascending, int64."""
        return self.text[self.place == place]

    def scores(self, weights: np.ndarray, norms: np.ndarray | None) -> np.ndarray:
        """Score all texts: float32 of shape (texts,).

        Args:
            weights: Of each term, shape (terms,).
            norms: What is added to the count of a term in each text, see `saturation`; None adds the weight of a term
                to every text that has it, however often.
        """
        if norms is None:
            return np.bincount(self.text, weights[self.place], self.of.count).astype(np.float32)
        # In place: a question weighs hundreds of thousands of counts.
        added = self.count.astype(np.float64)
        divisor = norms.take(self.text)
        divisor += added
        added *= (weights * self.times).take(self.place)
        added /= divisor
        return np.bincount(self.text, added, self.of.count).astype(np.float32)

    def counts_in(self, texts: np.ndarray) -> np.ndarray:
        """Return how often some texts have each term: integers of shape (terms, texts)."""
        wanted, column = np.zeros(self.of.count, bool), np.empty(self.of.count, np.int32)
        wanted[texts], column[texts] = True, np.arange(len(texts), dtype=np.int32)
        rows = np.flatnonzero(wanted.take(self.text))
        counts = np.zeros((len(self.terms), len(texts)), self.count.dtype)
        counts[self.place.take(rows), column.take(self.text.take(rows))] = self.count.take(rows)
        # One that is wanted twice was counted in one column.
        return counts.take(column.take(texts), axis=1)


def saturation(lengths: np.ndarray, mean_length: float | np.ndarray, k1: float, b: float) -> np.ndarray:
    """Return what is added to the count of a term in texts of these lengths, float64 (Lucene's form of BM25).

    Args:
        lengths: Tokens of each text.
        mean_length: Of all texts, or of those that each is one of.
        k1: Term frequency saturation.
        b: Length normalisation.
    """
    norms: np.ndarray = k1 * (1 - b + b * lengths / np.maximum(mean_length, 1e-9))
    return np.maximum(norms, 1e-9)


def idf(texts: int | np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return inverse document frequencies, Lucene's form: float64 array of the shape of `frequencies`."""
    return np.log1p((texts - frequencies + 0.5) / (frequencies + 0.5))


@dataclass(frozen=True)
class TermWeights:
    """Weighs terms by how many texts have them.

    Attributes:
        frequencies: In how many texts of each kind terms occur.
        texts: How many there are, by kind.
    """

    frequencies: Sums
    texts: Mapping[str, int]

    def of(self, terms: Sequence[str]) -> dict[str, np.ndarray]:
        """Return by kind, the inverse document frequency of each term, float64 of shape (terms,)."""
        texts = np.array(list(self.texts.values()))[:, None]
        return dict(zip(self.texts, idf(texts, np.maximum(self.frequencies.of(terms), 1)), strict=True))
