"""BriefContext's preflight: do two rankings of the same passages disagree on the top (section 5.2, eq. 1)?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mog_assets.answer.extractive import Encode, bm25_scores
from mog_assets.answer.roles import RetrievedPassage

# Given a query and passages, their positions from best to worst.
Rerank = Callable[[str, Sequence[RetrievedPassage]], list[int]]

TOP = 3
THRESHOLD = 0.2


def overlap(first: Sequence[int], second: Sequence[int], n: int = TOP) -> float:
    """Return intersection over union of the first n of two rankings, in [0, 1]; 1 if both are empty."""
    a, b = set(first[:n]), set(second[:n])
    return len(a & b) / len(a | b) if a | b else 1.0


def by_bm25(query: str, passages: Sequence[RetrievedPassage]) -> list[int]:
    """Return passages ranked by BM25 over "title + text", with their own statistics; ties keep their order."""
    scores = bm25_scores(query, [f"{p.title} {p.text}" for p in passages])
    return [int(i) for i in np.argsort(-scores, kind="stable")]


def by_vectors(encode: Encode) -> Rerank:
    """Return passages ranked by the cosine of their text with the query, for use if BM25 is the primary retriever."""

    def rerank(query: str, passages: Sequence[RetrievedPassage]) -> list[int]:
        if not passages:
            return []
        vectors = np.asarray(encode([query, *(f"{p.title}\n{p.text}" for p in passages)]), np.float32)
        return [int(i) for i in np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")]

    return rerank


def another(retriever: str | None, encode: Encode | None) -> Rerank:
    """Return the second ranking, which must be of another kind than the first.

    Args:
        retriever: What found the passages, `bm25` or another; None for rankings, which use all.
        encode: Texts to vectors.
    """
    return by_vectors(encode) if retriever == "bm25" and encode else by_bm25
