"""Ranked passages of questions, as documents and spans: pieces in order until a budget is full, neighbours joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from mog_assets.resources.arrays import first_of_each, ranges, running
from mog_assets.text.chunks import Layout

# Context lengths, in characters, at which evidence recall is measured.
CONTEXTS = (1000, 2000, 4000, 8000)
# A run is deep enough for every measure: the characters of the longest context, and the documents of nDCG@10.
CONTEXT_CHARS = CONTEXTS[-1]
DOCUMENTS = 10
DEPTH = 50
# Sizes of spans: of the document, start and end of each, arrays of shape (spans,).
Sizes = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
# Separates the spans of one passage.
GAP = " … "
# So many pieces of a question are sized at a time.
_BLOCK = 64


@dataclass(frozen=True)
class Passages:
    """Ranked passages of questions: one row per span, by question and rank; spans of a passage in reading order.

    Attributes:
        question: Position of the question.
        rank: Of the passage, from 0.
        document: Position of the document over all corpora, in their order.
        start, end: Offsets in its text, in characters.
        level: Level of the chunk, or another granularity of the method.
        score: The ranking score of the passage.
    """

    question: np.ndarray
    rank: np.ndarray
    document: np.ndarray
    start: np.ndarray
    end: np.ndarray
    level: np.ndarray
    score: np.ndarray

    def at(self, rows: np.ndarray) -> Passages:
        """Some rows: a mask, or positions in order."""
        return Passages(*(getattr(self, field.name)[rows] for field in fields(self)))

    def joined(self, others: Passages) -> Passages:
        """These and passages of other questions, by question."""
        order = np.argsort(np.concatenate([self.question, others.question]), kind="stable")
        columns = (field.name for field in fields(self))
        return Passages(*(np.concatenate([getattr(self, n), getattr(others, n)])[order] for n in columns))


def characters(document: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Sizes of spans in characters."""
    return end - start


def joined(
    passages: Passages, layout: Layout, budget: int | None = None, k: int | None = None, sizes: Sizes = characters
) -> Passages:
    """Join ranked pieces to passages of contiguous text that never repeat any.

    Pieces are taken in ranked order, those of a chunk in reading order. One that stands next to a piece taken before
    becomes part of its passage, and two passages that meet become one. Passages stand in the order of their best piece.
    The level of a passage is the finest whose chunks have as many pieces: granularity is what was chosen, not what was
    asked for.

    Args:
        passages: Ranked pieces or chunks of questions, each one span.
        layout: Of all corpora.
        budget: Most of a question's passages; the best piece is taken whatever its size.
        k: Most passages of a question: pieces are taken until one would begin another.
        sizes: What the budget counts.
    """
    first, last = layout.pieces(passages.document, passages.start, passages.end)
    rows = np.repeat(np.arange(len(first)), last - first)
    of, piece, score = passages.question[rows], ranges(first, last), passages.score[rows]
    taken: list[tuple[int, int, int, int, float]] = []
    bounds = np.searchsorted(of, np.arange(int(of.max(initial=-1)) + 2))
    for question, (begin, end) in enumerate(pairwise(bounds)):
        kept = begin + _taken(piece[begin:end], layout, budget, k, sizes)
        pieces = piece[kept]
        # Runs of neighbours: in ascending order, each begins where the number or the document jumps.
        order = np.argsort(pieces)
        document = layout.document_of[pieces[order]]
        jumps = np.concatenate([[True], (np.diff(pieces[order]) > 1) | (np.diff(document) != 0)])[: len(pieces)]
        if len(begins := np.flatnonzero(jumps)):
            best = np.minimum.reduceat(order, begins)
            rank = np.argsort(np.argsort(best))
            ends = np.append(begins[1:], len(pieces)) - 1
            taken += zip(
                [question] * len(best), rank, pieces[order][begins], pieces[order][ends], score[kept[best]], strict=True
            )
    taken.sort(key=lambda row: row[:2])
    columns = (np.array(c) for c in zip(*taken, strict=True)) if taken else [np.zeros(0, int)] * 5
    of, rank, begin, end, value = columns
    level = 1 + np.ceil(np.log2(end - begin + 1)).astype(np.int64)
    return Passages(of, rank, layout.document_of[begin], layout.spans[begin, 0], layout.spans[end, 1], level, value)


def fitting(passages: Passages, budget: int, sizes: Sizes = characters) -> Passages:
    """The best passages that fit into a budget as they are, of several spans each; always the best one."""
    length = sizes(passages.document, passages.start, passages.end)
    used = running(length, passages.question) + length
    full = (used > budget) & (passages.rank > 0)
    least = np.full(int(passages.question.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, passages.question[full], passages.rank[full])
    return passages.at(passages.rank < least[passages.question])


def _taken(pieces: np.ndarray, layout: Layout, budget: int | None, k: int | None, sizes: Sizes) -> np.ndarray:
    """Which of a question's ranked pieces fill the budget, or k passages; each once."""
    document = layout.document_of[pieces]
    taken: set[tuple[int, int]] = set()
    kept: list[int] = []
    used, runs = 0, 0
    for row, (piece, of) in enumerate(zip(pieces.tolist(), document.tolist(), strict=True)):
        if row % _BLOCK == 0:
            block = pieces[row : row + _BLOCK]
            size_of = sizes(document[row : row + _BLOCK], *layout.spans[block].T).tolist()
        size = size_of[row % _BLOCK]
        if (of, piece) in taken:
            continue
        joins = ((of, piece - 1) in taken) + ((of, piece + 1) in taken)
        if (budget is not None and used and used + size > budget) or (k is not None and runs + 1 - joins > k):
            break
        taken.add((of, piece))
        kept.append(row)
        used, runs = used + size, runs + 1 - joins
    return np.array(kept, np.int64)


def cut(passages: Passages, k: int) -> Passages:
    """Only the passages that measures use: `CONTEXT_CHARS` characters, `DOCUMENTS` documents, k passages."""
    length = passages.end - passages.start
    return passages.at(seen(passages.question, passages.rank, passages.document, length, k))


def seen(question: np.ndarray, rank: np.ndarray, document: np.ndarray, length: np.ndarray, k: int) -> np.ndarray:
    """Mask of the rows that any measure uses; a passage is used as a whole."""
    new = np.zeros(len(question), np.int64)
    new[first_of_each(question, document)] = 1
    filling = running(length, question) < CONTEXT_CHARS
    rows = (running(new, question) < DOCUMENTS) | filling | (rank < k)
    last = np.full(int(question.max(initial=-1)) + 1, -1)
    np.maximum.at(last, question[rows], rank[rows])
    return rank <= last[question]
