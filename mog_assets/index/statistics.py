"""Statistics that weigh terms: in how many texts each occurs, of all corpora that are searched together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mog_assets.index.postings import idf
from mog_assets.index.term_tables import Sums, Terms, TermTable, Together, write_table

# Numbers of texts and tokens, by corpus and kind of text; and frequent words, by corpus and language.
TOTALS, LANGUAGES = "totals.json", "languages.json"
Counted = tuple[Sequence[str], np.ndarray, int, int]
"""Of the texts of one kind: terms; in how many texts each occurs, shape (terms,); number of texts; their tokens."""


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


def file_of(corpus: str) -> str:
    """The file with the document frequencies of a corpus."""
    return f"terms_{corpus}.arrow"


def summed(parts: Iterable[Counted]) -> Counted:
    """Add up the counts of several shards."""
    number: dict[str, int] = {}
    rows, frequencies, texts, tokens = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0, 0
    for terms, of_part, texts_of_part, tokens_of_part in parts:
        rows.append(np.array([number.setdefault(term, len(number)) for term in terms], np.int64))
        frequencies.append(of_part)
        texts, tokens = texts + texts_of_part, tokens + tokens_of_part
    counts = np.bincount(np.concatenate(rows), np.concatenate(frequencies), len(number)).astype(np.int64)
    return list(number), counts, texts, tokens


def write_terms(kinds: Mapping[str, Counted], path: Path) -> dict[str, list[int]]:
    """Write the document frequencies of a corpus: a row per term, a column per kind of text, 0 where it has none.

    Returns:
        By kind, how many texts there are, and their tokens.
    """
    terms = sorted({term for words, _, _, _ in kinds.values() for term in words})
    number = {term: row for row, term in enumerate(terms)}
    columns = {kind: np.zeros(len(terms), np.uint32) for kind in kinds}
    for kind, (words, frequencies, _, _) in kinds.items():
        columns[kind][[number[term] for term in words]] = frequencies
    write_table(terms, columns, path)
    return {kind: [texts, tokens] for kind, (_, _, texts, tokens) in kinds.items()}


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

    def frequencies(self, terms: Sequence[str]) -> dict[str, np.ndarray]:
        """By kind, in how many texts each term occurs: at least in one, as somebody asks, int64 of shape (terms,)."""
        return dict(zip(self.kinds, np.maximum(self._frequencies.of(terms), 1), strict=True))

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

    def of(self, kind: str) -> Statistics:
        """The statistics of the texts of one kind, such as `level_1` or `title`."""
        return Statistics(self.texts[kind], self.mean_lengths[kind], Together(self._terms, kind))
