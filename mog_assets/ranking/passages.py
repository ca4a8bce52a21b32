"""Passages: pieces in ranked order until a budget is full, neighbours joined."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mog_assets.chunking.chunks import Layout
from mog_assets.retrieval.methods import Passages

BUDGET = 4000


def passages(
    question: np.ndarray,
    piece: np.ndarray,
    score: np.ndarray,
    layout: Layout,
    budget: int | None = None,
    k: int | None = None,
) -> Passages:
    """Join ranked pieces to passages of contiguous text that never repeat any.

    Pieces are taken in ranked order; one that stands next to a piece taken before becomes part of its passage, and two
    passages that meet become one. Passages stand in the order of their best piece. The level of a passage is the finest
    whose chunks have as many pieces: granularity is what was chosen, not what was asked for.

    Args:
        question: Position of the question of each piece, ascending, best piece first.
        piece: The pieces.
        score: Their scores.
        layout: Of all corpora.
        budget: Most characters of a question's passages; the best piece is taken whatever its length.
        k: Most passages of a question: pieces are taken until one would begin another.
    """
    found: list[tuple[int, int, int, int, float]] = []
    bounds = np.searchsorted(question, np.arange(int(question.max(initial=-1)) + 2))
    for asked, (first, last) in enumerate(pairwise(bounds)):
        own = piece[first : _taken(piece[first:last], layout, budget, k) + first]
        # Runs of neighbours: in ascending order, each begins where the number or the document jumps.
        order = np.argsort(own)
        document = layout.document_of[own[order]]
        begins = np.flatnonzero(
            np.concatenate([[True], (np.diff(own[order]) > 1) | (np.diff(document) != 0)])[: len(own)]
        )
        if len(begins):
            best = np.minimum.reduceat(order, begins)
            rank = np.argsort(np.argsort(best))
            ends = np.append(begins[1:], len(own)) - 1
            found += zip(
                [asked] * len(best), rank, own[order][begins], own[order][ends], score[first + best], strict=True
            )
    found.sort(key=lambda row: row[:2])
    of, rank, begin, end, value = (np.array(c) for c in zip(*found, strict=True)) if found else [np.zeros(0, int)] * 5
    level = 1 + np.ceil(np.log2(end - begin + 1)).astype(np.int64)
    return Passages(of, rank, layout.document_of[begin], layout.spans[begin, 0], layout.spans[end, 1], level, value)


def _taken(pieces: np.ndarray, layout: Layout, budget: int | None, k: int | None) -> int:
    """How many of a question's ranked pieces fill the budget, or k passages."""
    sizes = (layout.spans[pieces, 1] - layout.spans[pieces, 0]).tolist()
    document = layout.document_of[pieces].tolist()
    taken: set[tuple[int, int]] = set()
    used, runs = 0, 0
    for count, (piece, of, size) in enumerate(zip(pieces.tolist(), document, sizes, strict=True)):
        joins = ((of, piece - 1) in taken) + ((of, piece + 1) in taken)
        if (budget is not None and used and used + size > budget) or (k is not None and runs + 1 - joins > k):
            return count
        taken.add((of, piece))
        used, runs = used + size, runs + 1 - joins
    return len(pieces)
