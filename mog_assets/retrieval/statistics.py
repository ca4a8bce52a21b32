"""Statistics that weigh terms, held while few documents change.

An edit moves the number of texts, their mean length and the document frequencies of its words, and with them every
score of every question. So the statistics are an artefact of their own. They are renewed when more than a share of the
documents changed since they were counted; until then a score depends on the question and the text alone, and an edit
touches only the questions that find the edited text.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save

from mog_assets.chunking.chunks import Layout
from mog_assets.retrieval.bm25 import Statistics
from mog_assets.retrieval.term_tables import TermTable, Together, write_table

# Files of the artefact.
TOTALS, DOCUMENTS, LANGUAGES = "totals.json", "documents.safetensors", "languages.json"
KNOWN = 1
"""A term that is not held occurs in so many texts: in at least the one whose term is weighted."""

Counted = tuple[Sequence[str], np.ndarray, int, int]
"""Of the texts of one kind: terms; in how many texts each occurs, shape (terms,); number of texts; their tokens."""


def file_of(corpus: str) -> str:
    """The file with the document frequencies of a corpus."""
    return f"terms_{corpus}.arrow"


def document_hashes(layout: Layout, digests: Sequence[str]) -> np.ndarray:
    """A number for each document that changes with its id, its title or text, or where it is cut.

    Args:
        layout: Of the documents.
        digests: Hash of title, text and language of each.

    Returns:
        uint64 array of shape (documents,); two documents share a number with a probability of 2^−64.
    """
    cuts = np.ascontiguousarray(layout.spans, np.int64)
    hashes = np.empty(len(layout.documents), np.uint64)
    bounds = zip(layout.documents, digests, layout.offsets[:-1].tolist(), layout.offsets[1:].tolist(), strict=True)
    for row, (name, digest, first, last) in enumerate(bounds):
        facts = f"{layout.corpus}\0{name}\0{digest}\0".encode() + cuts[first:last].tobytes()
        hashes[row] = int.from_bytes(hashlib.blake2b(facts, digest_size=8).digest(), "little")
    return hashes


def write_documents(hashes: Mapping[str, np.ndarray], path: Path) -> None:
    """Write `document_hashes` by corpus."""
    path.write_bytes(save({name: np.ascontiguousarray(of_corpus).view(np.int64) for name, of_corpus in hashes.items()}))


def read_documents(path: Path) -> dict[str, np.ndarray]:
    """What `write_documents` wrote."""
    return {corpus: of_corpus.view(np.uint64) for corpus, of_corpus in load_file(path).items()}


def changed(before: np.ndarray, now: np.ndarray) -> int:
    """Documents that were added, edited or removed, given their hashes; an edit counts once."""
    return max(len(np.setdiff1d(now, before)), len(np.setdiff1d(before, now)))


def drifted(
    before: Mapping[str, np.ndarray], now: Mapping[str, np.ndarray], scopes: Sequence[Sequence[str]], share: float
) -> str | None:
    """Why statistics must be renewed, in a few words; None if they may stay.

    Args:
        before: Hashes of documents when they were counted, by corpus.
        now: Hashes now.
        scopes: Corpora that are weighed together.
        share: Largest share of the documents of a scope that may have changed.
    """
    if set(before) != set(now):
        return "other corpora"
    for scope in scopes:
        edited, total = sum(changed(before[c], now[c]) for c in scope), sum(len(now[c]) for c in scope)
        if edited > share * total:
            return f"{edited:,} of {total:,} documents of {', '.join(scope)} changed, more than {share:.2%}"
    return None


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
        """The statistics of the texts of one kind, such as `level_1`, `title` or `hop_2`."""
        texts, tokens = self._totals[kind]
        return Statistics(texts, tokens / max(texts, 1), Together(self._tables, kind))


def idf(texts: int, frequencies: np.ndarray) -> np.ndarray:
    """Inverse document frequencies, Lucene's form: float64 array of the shape of `frequencies`."""
    return np.log1p((texts - frequencies + 0.5) / (frequencies + 0.5))


def deviations(before: StoredStatistics, now: StoredStatistics, b: float) -> list[dict[str, Any]]:
    """How far the weights of terms were off when statistics were renewed, in percent.

    Args:
        before: The statistics that were in use.
        now: Those that replace them.
        b: Length normalisation.

    Returns:
        A row per kind of text: `kind`, number of `terms`, and the deviation that half of the occurrences of terms, 99 %
        of them, and all of them do not exceed; see `bound`.
    """
    rows = []
    for kind in now.kinds:
        in_use, current = before.of(kind), now.of(kind)
        terms = [term for term, times in current.frequencies.items() if times]
        low, high = bound(in_use, current, terms, b)
        off, times = np.maximum(1 - low, high - 1), current.frequencies_of(terms)
        order = np.argsort(off)
        share = np.cumsum(times[order]) / max(times.sum(), 1)
        row: dict[str, Any] = {"kind": kind, "terms": len(terms)}
        for name, least in (("half of occurrences, %", 0.5), ("99 % of occurrences, %", 0.99), ("all, %", 1.0)):
            at = min(int(np.searchsorted(share, least - 1e-12)), len(terms) - 1)
            row[name] = round(100 * float(off[order[at]]), 3) if terms else 0.0
        rows.append(row)
    return rows


def bound(in_use: Statistics, now: Statistics, terms: Sequence[str], b: float) -> tuple[np.ndarray, np.ndarray]:
    """Within which factors the BM25 weight of each term lies, whatever the text: weight held / weight now.

    A weight is idf · tf / (tf + k1 · (1 − b + b · length / mean)). With r the ratio of the mean lengths, the second
    part changes by a factor between 1 and, at most, max(1, r) or min(1, r); so a score, a sum of weights, is
    off by no more than the widest of its terms' factors.

    Args:
        in_use: The statistics in use.
        now: Those of the texts as they are.
        terms: Terms of texts.
        b: Length normalisation.

    Returns:
        Least and greatest factor of every term, float64 of shape (terms,) each.
    """
    ratio = idf(in_use.chunks, in_use.frequencies_of(terms)) / idf(now.chunks, now.frequencies_of(terms))
    lengths = 1.0 if b == 0 else in_use.mean_length / max(now.mean_length, 1e-9)
    return ratio * min(1.0, lengths), ratio * max(1.0, lengths)
