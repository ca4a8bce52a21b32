"""Postings: which texts have a term, and how often, mapped from the files of shards and weighed where a question is.

Opening reads no posting. A question reads those of its own terms, once: `Matches` are what all steps of a search know
of words. Scores are Lucene's form of BM25 (Kamphuis et al. 2020). What weighs terms are statistics: in how many
texts of all corpora that are searched together each occurs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mog_assets.index.term_tables import Sums, Terms, TermTable, Together
from mog_assets.resources.lazy import cached_property
from mog_assets.resources.store import Artefact
from mog_assets.resources.tensors import mapped


@dataclass(frozen=True)
class TermCounts:
    """Counts of one kind of text of one shard of a corpus, by column of a sparse matrix of shape (texts, terms).

    Attributes:
        terms: Sorted; those of stored counts are the vocabulary of the shard, a `TermTable`.
        indptr, indices, counts: CSC arrays.
        lengths: Tokens of every text.
    """

    terms: Sequence[str]
    indptr: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    @property
    def frequencies(self) -> np.ndarray:
        """int64 array of shape (terms,): in how many texts a term occurs."""
        return np.diff(self.indptr)


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
        """How often the question has each term, int64 of shape (terms,)."""
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


def mapped_counts(path: Path, terms: Sequence[str]) -> TermCounts:
    """Open counts in the types that they are stored in; entries are read where they are used."""
    stored = mapped(path)
    indptr = np.concatenate([[0], np.cumsum(stored["frequencies"], dtype=np.int64)])
    return TermCounts(terms, indptr, *(stored[name] for name in ("chunks", "counts", "lengths")))


def open_tables(tokens: Artefact, kind: str = "terms_") -> list[TermTable]:
    """Open the vocabulary of each shard of a corpus, or its words as they are written: `words_`."""
    return [TermTable(tokens.path(name)) for name in tokens.names(kind)]


def open_counts(counts: Artefact, tokens: Artefact) -> list[TermCounts]:
    """Open the term counts of level 1 of a corpus, per shard: `bm25/level_1` with the vocabularies of `tokens`."""
    return _opened(counts, tokens, "counts")


def open_titles(tokens: Artefact) -> list[TermCounts]:
    """Open the term counts of the titles of a corpus, per shard."""
    return _opened(tokens, tokens, "titles")


def _opened(stored: Artefact, tokens: Artefact, what: str) -> list[TermCounts]:
    shards = [name.removeprefix("terms_").partition(".")[0] for name in tokens.names("terms_")]
    tables = zip(shards, open_tables(tokens), strict=True)
    return [mapped_counts(stored.path(f"{what}_{shard}.safetensors"), table) for shard, table in tables]


# Numbers of texts and tokens, by corpus and kind of text; and frequent words, by corpus and language.
TOTALS, LANGUAGES = "totals.json", "languages.json"
Counted = tuple[Sequence[str], np.ndarray, int, int]
"""Of the texts of one kind: terms; in how many texts each occurs, shape (terms,); number of texts; their tokens."""


def file_of(corpus: str) -> str:
    """The file with the document frequencies of a corpus."""
    return f"terms_{corpus}.arrow"


class StoredStatistics:
    """The statistics of some corpora together.

    Args:
        path: Path of a file of the artefact by its logical name.
        corpora: Their names.
    """

    def __init__(self, path: Callable[[str], Path], corpora: Sequence[str]) -> None:
        self._path, self._corpora = path, list(corpora)

    @cached_property
    def _totals(self) -> dict[str, tuple[int, int]]:
        """By kind, how many texts there are, and their tokens."""
        stored = json.loads(self._path(TOTALS).read_bytes())
        rows = [stored[corpus] for corpus in self._corpora]
        return {kind: (sum(o[kind][0] for o in rows), sum(o[kind][1] for o in rows)) for kind in rows[0]}

    @cached_property
    def _terms(self) -> Terms:
        return Terms([TermTable(self._path(file_of(corpus))) for corpus in self._corpora])

    @property
    def kinds(self) -> list[str]:
        """Kinds of texts that are counted."""
        return list(self._totals)

    def by_language(self) -> dict[str, tuple[list[str], np.ndarray]]:
        """Frequent terms of the documents in each language, the most frequent first, and how often they occur."""
        counts: dict[str, Counter[str]] = {}
        stored = json.loads(self._path(LANGUAGES).read_bytes())
        for code, of_corpus in (item for corpus in self._corpora for item in stored[corpus].items()):
            counts[code] = counts.get(code, Counter()) + Counter(of_corpus)
        ranked = {code: own.most_common() for code, own in counts.items()}
        return {code: ([term for term, _ in own], np.array([n for _, n in own])) for code, own in ranked.items()}

    @cached_property
    def _frequencies(self) -> Sums:
        tables = self._terms.tables
        return Sums(self._terms, [[table.column(kind) for kind in self.kinds] for table in tables])

    def weights(self, terms: Sequence[str]) -> dict[str, np.ndarray]:
        """By kind, the inverse document frequency of each term, float64 of shape (terms,)."""
        texts = np.array([self.texts[kind] for kind in self.kinds])[:, None]
        return dict(zip(self.kinds, idf(texts, np.maximum(self._frequencies.of(terms), 1)), strict=True))

    @cached_property
    def texts(self) -> dict[str, int]:
        """By kind, how many texts there are."""
        return {kind: texts for kind, (texts, _) in self._totals.items()}

    @cached_property
    def mean_lengths(self) -> dict[str, float]:
        """By kind, the mean tokens of a text."""
        return {kind: tokens / max(texts, 1) for kind, (texts, tokens) in self._totals.items()}

    def frequencies(self, kind: str) -> Together:
        """In how many texts of a kind, such as `level_1` or `title`, each term occurs."""
        return Together(self._terms, kind)
