"""Statistics that weigh terms: in how many texts each occurs, of all corpora that are searched together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from mog_assets.index.bm25 import Statistics
from mog_assets.index.term_tables import TermTable, Together, write_table

# Numbers of texts and tokens, by corpus and kind of text; and frequent words, by corpus and language.
TOTALS, LANGUAGES = "totals.json", "languages.json"
Counted = tuple[Sequence[str], np.ndarray, int, int]
"""Of the texts of one kind: terms; in how many texts each occurs, shape (terms,); number of texts; their tokens."""


def file_of(corpus: str) -> str:
    """The file with the document frequencies of a corpus."""
    return f"terms_{corpus}.arrow"


def summed(parts: Iterable[tuple[Sequence[str], np.ndarray, np.ndarray]]) -> Counted:
    """The counts of several shards together.

    Args:
        parts: Of each its terms, in how many texts each occurs, and the tokens of every text.
    """
    number: dict[str, int] = {}
    rows, frequencies, texts, tokens = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0, 0
    for terms, of_part, lengths in parts:
        rows.append(np.array([number.setdefault(term, len(number)) for term in terms], np.int64))
        frequencies.append(of_part)
        texts, tokens = texts + len(lengths), tokens + int(lengths.sum())
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
    def _tables(self) -> list[TermTable]:
        return [TermTable(self._path(file_of(corpus))) for corpus in self._corpora]

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

    def of(self, kind: str) -> Statistics:
        """The statistics of the texts of one kind, such as `level_1` or `title`."""
        texts, tokens = self._totals[kind]
        return Statistics(texts, tokens / max(texts, 1), Together(self._tables, kind))


def idf(texts: int, frequencies: np.ndarray) -> np.ndarray:
    """Inverse document frequencies, Lucene's form: float64 array of the shape of `frequencies`."""
    return np.log1p((texts - frequencies + 0.5) / (frequencies + 0.5))
