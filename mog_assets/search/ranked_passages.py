"""Ranked passages of questions, as documents and spans."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mog_assets.resources.arrays import first_of_each, running

# Context lengths, in characters, at which evidence recall is measured.
CONTEXTS = (1000, 2000, 4000, 8000)
# A run is deep enough for every measure: the characters of the longest context, and the documents of nDCG@10.
CONTEXT_CHARS = CONTEXTS[-1]
DOCUMENTS = 10
DEPTH = 50


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
