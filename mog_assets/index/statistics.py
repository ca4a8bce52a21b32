"""Statistics of the texts of corpora that are searched together."""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mog_assets.index.postings import Sums, Terms, TermWeights
from mog_assets.index.term_tables import TermTable
from mog_assets.resources.lazy import cached_property

# Numbers of texts and tokens, by corpus and kind of text; and frequent words, by corpus and language.
TOTALS, LANGUAGES = "totals.json", "languages.json"
Counted = tuple[Sequence[str], np.ndarray, int, int]
"""Of the texts of one kind: terms; in how many texts each occurs, shape (terms,); number of texts; their tokens."""


def file_of(corpus: str) -> str:
    """Return the file with the document frequencies of a corpus."""
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

    def by_language(self) -> dict[str, tuple[list[str], np.ndarray]]:
        """Return frequent terms of documents in each language, most frequent first, and how often they occur."""
        counts: dict[str, Counter[str]] = {}
        stored = json.loads(self._path(LANGUAGES).read_bytes())
        for code, of_corpus in (item for corpus in self._corpora for item in stored[corpus].items()):
            counts[code] = counts.get(code, Counter()) + Counter(of_corpus)
        ranked = {code: own.most_common() for code, own in counts.items()}
        return {code: ([term for term, _ in own], np.array([n for _, n in own])) for code, own in ranked.items()}

    @cached_property
    def weights(self) -> TermWeights:
        """Return what weighs terms."""
        columns = [[table.column(kind) for kind in self.texts] for table in self._terms.tables]
        return TermWeights(Sums(self._terms, columns), self.texts)

    @cached_property
    def texts(self) -> dict[str, int]:
        """By kind, how many texts there are."""
        return {kind: texts for kind, (texts, _) in self._totals.items()}

    @cached_property
    def mean_lengths(self) -> dict[str, float]:
        """By kind, the mean tokens of a text."""
        return {kind: tokens / max(texts, 1) for kind, (texts, tokens) in self._totals.items()}

    def frequencies(self, kind: str) -> Together:
        """Return in how many texts of a kind, such as `level_1` or `title`, each term occurs."""
        return Together(self._terms, kind)


class Together(Sums):
    """A column of several tables as one: the numbers of a term are added up.

    Args:
        terms: Looks terms up in the tables.
        name: Of the column.
        least: What a term counts for at least in each table that has it.
    """

    def __init__(self, terms: Terms, name: str, least: int = 0) -> None:
        columns = [table.column(name) for table in terms.tables]
        super().__init__(terms, [[np.maximum(column, least) if least else column] for column in columns])
        self._tables, self._column, self._least = terms.tables, columns, least

    def starting(self, prefix: str) -> list[str]:
        """Return the terms that begin with some letters, sorted."""
        terms: set[str] = set()
        for table in self._tables:
            first = bisect_left(table, prefix)
            terms.update(table[first : bisect_left(table, f"{prefix}{chr(sys.maxunicode)}", first)])
        return sorted(terms)

    def most_frequent(self, count: int) -> tuple[list[str], np.ndarray]:
        """Return terms with the greatest sums, at most `count`, and their sums; of equal ones the first by letters."""
        terms = self._with([_kth(column, count) for column in self._column])
        if len(self._tables) > 1:
            sums = np.sort(self.values_of(terms))
            # A term with one of the greatest sums has its share of it in one of the tables.
            least = (sums[-count] if len(sums) > count else 1) / len(self._tables)
            terms = self._with([least] * len(self._tables))
        values = self.values_of(terms)
        order = np.argsort(-values, kind="stable")[:count]
        return [terms[row] for row in order.tolist()], values[order]

    def _with(self, least: Sequence[float]) -> list[str]:
        """Return terms that have so great a number in any of the tables, sorted."""
        terms: set[str] = set()
        for table, column, limit in zip(self._tables, self._column, least, strict=True):
            terms.update(table[row] for row in np.flatnonzero(column >= limit).tolist())
        return sorted(terms)

    def totals(self) -> dict[str, int]:
        """Return the sums of all terms."""
        total: dict[str, int] = {}
        for table, column in zip(self._tables, self._column, strict=True):
            for term, value in zip(table, np.maximum(column, self._least).tolist(), strict=True):
                total[term] = total.get(term, 0) + value
        return total


def _kth(column: np.ndarray, count: int) -> float:
    """Return the number at a place from above."""
    return float(np.partition(column, len(column) - count)[-count]) if len(column) > count else 0.0
