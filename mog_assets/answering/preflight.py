"""BriefContext's preflight: do two rankings of the same passages disagree on the top (section 5.2, eq. 1)?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mog_assets.answering.roles import Passage
from mog_assets.retrieval.bm25 import Bm25Index, TermCounts, statistics
from mog_assets.text.languages import of_texts
from mog_assets.text.terms import terms_of

# Given a query and passages, their positions from best to worst.
Rerank = Callable[[str, Sequence[Passage]], list[int]]
Encode = Callable[[Sequence[str]], np.ndarray]

TOP = 3
THRESHOLD = 0.2
K1, B = 1.5, 0.75


@dataclass(frozen=True)
class Confusion:
    """Counts of preflight predictions against the truth (the key document is ranked below the top): section 2.3."""

    tp: int
    fp: int
    fn: int
    tn: int

    @classmethod
    def of(cls, predicted: Sequence[bool], truth: Sequence[bool]) -> Confusion:
        """Counts over questions."""
        pairs = list(zip(predicted, truth, strict=True))
        counts = [pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]
        return cls(*counts)

    @property
    def precision(self) -> float | None:
        """Share of positive predictions that are true; None if there are none."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else None

    @property
    def recall(self) -> float | None:
        """Share of true cases that were predicted; None if there are none."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall; None if nothing is true and nothing was predicted."""
        both = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / both if both else None


def overlap(first: Sequence[int], second: Sequence[int], n: int = TOP) -> float:
    """Intersection over union of the first n of two rankings, in [0, 1]; 1 if both are empty."""
    a, b = set(first[:n]), set(second[:n])
    return len(a & b) / len(a | b) if a | b else 1.0


def bm25_scores(query: str, texts: Sequence[str]) -> np.ndarray:
    """BM25 score of each text for a query, in the language of the texts: float64 array of shape (texts,).

    Statistics are of these texts only.
    """
    *rows, question_terms = terms_of([*texts, query], of_texts(texts))
    scores = np.zeros(len(texts))
    terms = sorted({term for row in rows for term in row})
    if not terms:
        return scores
    number = {term: i for i, term in enumerate(terms)}
    columns = [number[term] for row in rows for term in row]
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    matrix = sparse.csc_matrix((np.ones(len(columns), np.int32), (owner, columns)), shape=(len(rows), len(terms)))
    lengths = np.array([len(row) for row in rows], np.int64)
    counts = TermCounts(terms, matrix.indptr, matrix.indices, matrix.data, lengths)
    chunks, values = Bm25Index(counts, statistics([counts]), K1, B).search([question_terms], len(texts))
    kept = chunks[0] >= 0
    scores[chunks[0, kept]] = values[0, kept]
    return scores


def by_bm25(query: str, passages: Sequence[Passage]) -> list[int]:
    """Passages ranked by BM25 over "title + text", with their own statistics; ties keep their order."""
    scores = bm25_scores(query, [f"{p.title} {p.text}" for p in passages])
    return [int(i) for i in np.argsort(-scores, kind="stable")]


def by_vectors(encode: Encode) -> Rerank:
    """Passages ranked by the cosine of their text with the query, for use if BM25 is the primary retriever."""

    def rerank(query: str, passages: Sequence[Passage]) -> list[int]:
        if not passages:
            return []
        vectors = np.asarray(encode([query, *(f"{p.title}\n{p.text}" for p in passages)]), np.float32)
        return [int(i) for i in np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")]

    return rerank


def another(retriever: str | None, encode: Encode) -> Rerank:
    """The second ranking, which must be of another kind than the first.

    Args:
        retriever: What found the passages, `bm25` or another; None for rankings, which use all.
        encode: Texts to vectors.
    """
    return by_vectors(encode) if retriever == "bm25" else by_bm25
