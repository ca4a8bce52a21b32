"""Relevance evidence in candidates: what models learn from, and how good an order of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mog_assets.resources.arrays import places, ranges, running
from mog_assets.search.candidates import Candidates
from mog_assets.search.depth import CONTEXTS
from mog_assets.text.chunks import Layout

# Of reciprocal rank fusion.
_CONSTANT = 100
# Grades of relevance: 0, and shares of evidence up to 1/4, 1/2, 3/4 and 1.
GRADES = 4


@dataclass(frozen=True)
class Relevance:
    """The evidence of questions, and where candidates cover it.

    Attributes:
        candidates: The candidates.
        characters: Evidence of each question, int64 of shape (questions,).
        row, start, end: A row for every candidate and span of evidence that overlap: row of the candidate, and start
            and end of the span, counted from the first character of the candidate.
    """

    candidates: Candidates
    characters: np.ndarray
    row: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @classmethod
    def located(
        cls, candidates: Candidates, evidence: Sequence[Sequence[tuple[int, int, int]]], layout: Layout
    ) -> Relevance:
        """Return the evidence of questions.

        Args:
            candidates: Their candidates.
            evidence: Disjoint spans of each question: position of the document, start and end.
            layout: Of all corpora.
        """
        spans = np.array([(number, *span) for number, places in enumerate(evidence) for span in places], np.int64)
        spans = spans.reshape(-1, 4)
        characters = np.bincount(spans[:, 0], spans[:, 3] - spans[:, 2], len(evidence)).astype(np.int64)
        # Candidates are in order of question and piece, and pieces of a document in order of their spans.
        rows, starts, ends = [], [], []
        offsets = candidates.offsets
        for question, document, start, end in spans.tolist():
            pieces_of = candidates.piece[offsets[question] : offsets[question + 1]]
            first, last = np.searchsorted(pieces_of, layout.offsets[document : document + 2])
            begin, stop = layout.spans[pieces_of[first:last]].T
            here = np.flatnonzero((begin < end) & (stop > start))
            rows.append(offsets[question] + first + here)
            starts.append(np.maximum(start - begin[here], 0))
            ends.append(np.minimum(end, stop[here]) - begin[here])
        empty = np.zeros(0, np.int64)
        return cls(candidates, characters, *(np.concatenate([empty, *parts]) for parts in (rows, starts, ends)))

    def of(self, questions: np.ndarray) -> Relevance:
        """Return the evidence of some questions, in this order; see `Candidates.of`."""
        first, last = self.candidates.offsets[questions], self.candidates.offsets[questions + 1]
        rows = ranges(first, last)
        place = np.full(len(self.candidates.question), -1)
        place[rows] = np.arange(len(rows))
        chosen = place[self.row] >= 0
        candidates, characters = self.candidates.of(questions), self.characters[questions]
        return Relevance(candidates, characters, place[self.row[chosen]], self.start[chosen], self.end[chosen])

    def only(self, questions: np.ndarray) -> Relevance:
        """Return the same without the evidence of all but some questions, bool of shape (questions,)."""
        chosen = questions[self.candidates.question[self.row]]
        characters = np.where(questions, self.characters, 0)
        return Relevance(self.candidates, characters, self.row[chosen], self.start[chosen], self.end[chosen])

    @cached_property
    def covered(self) -> np.ndarray:
        """Characters of evidence in each candidate, int64 of shape (n,)."""
        return np.bincount(self.row, self.end - self.start, len(self.candidates.question)).astype(np.int64)

    @property
    def grades(self) -> np.ndarray:
        """Relevance 0 … `GRADES` of each candidate: the share of what it could hold that is evidence, rounded up."""
        could = np.minimum(self.candidates.place[:, 2], self.characters[self.candidates.question])
        return np.ceil(GRADES * np.clip(self.covered / np.maximum(could, 1), 0, 1) - 1e-9).astype(np.int64)

    def recall(self, order: np.ndarray) -> np.ndarray:
        """Return evidence recall of every question: `ER`, see `evaluate.measures.evaluate`.

        Args:
            order: Rows of the candidates by question, best first.

        Returns:
            float64 array of shape (questions,).
        """
        question, length = self.candidates.question[order], self.candidates.place[order, 2].astype(np.int64)
        before = np.empty(len(order), np.int64)
        before[order] = running(length, question)
        of_row = self.candidates.question[self.row]
        total = np.zeros(len(self.characters))
        for context in CONTEXTS:
            room = np.clip(context - before, 0, self.candidates.place[:, 2])
            hit = np.clip(np.minimum(self.end, room[self.row]) - self.start, 0, None)
            total += np.bincount(of_row, hit, len(total)) / np.clip(self.characters, 1, context)
        return total / len(CONTEXTS)


def chunk_scores(candidates: Candidates, chunk: np.ndarray, scores: Sequence[np.ndarray]) -> np.ndarray:
    """Score the chunk of each candidate by one retriever, or by two, fused by reciprocal ranks (Xiong et al. 2024).

    Args:
        candidates: The candidates.
        chunk: The chunk of each.
        scores: Of that chunk by each retriever, of shape (n,).
    """
    if len(scores) == 1:
        return scores[0]
    gains = np.zeros(len(chunk))
    for of_retriever in scores:
        order = np.lexsort((candidates.piece, chunk, -of_retriever, candidates.question))
        new = np.concatenate([[True], np.diff(chunk[order]) != 0]) | (places(candidates.question[order]) == 0)
        count = np.cumsum(new)
        rank = count - count[candidates.offsets[candidates.question[order]]]
        gains[order] += np.where(of_retriever[order] > 0, 1 / (_CONSTANT + 1 + rank), 0)
    return gains


def fixed_order(candidates: Candidates, chunk: np.ndarray, scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return rows of candidates in the order of one level: chunk by chunk, and pieces of a chunk in reading order.

    Args:
        candidates: The candidates.
        chunk: The chunk of each.
        scores: See `chunk_scores`.
    """
    of_chunk = chunk_scores(candidates, chunk, scores).astype(np.float64)
    return np.lexsort((candidates.piece, chunk, -of_chunk, candidates.question))
