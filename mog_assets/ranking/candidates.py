"""Candidates of questions: level-1 pieces of the best texts by any expert, with their exact score by every expert."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from mog_assets.arrays import greatest, pairs, ranges, unpaired
from mog_assets.chunking.chunks import Layout
from mog_assets.ranking.experts import Expert

# Scores of all texts by all experts that are in memory at a time, in bytes.
_BLOCK_BYTES = 256 << 20


@dataclass(frozen=True)
class Candidates:
    """Candidates of questions, in order of question and piece.

    Attributes:
        question: int64 array of shape (n,): position of the question.
        piece: int64 array of shape (n,): the level-1 chunk, over all corpora in their order.
        scores: float32 array of shape (n, experts): score of the text that the piece lies in.
        beside: float32 array of shape (n, 2, finest experts): level-1 scores of the pieces before and after it in its
            document, 0 where there is none.
        place: int32 array of shape (n, 4): number of the piece in its document, pieces of the document, characters of
            the piece, corpus.
        floors: float32 array of shape (questions, experts): what a text must score to be among the best of an expert
            that give candidates; 0 if fewer score above 0, and of experts that give none.
    """

    question: np.ndarray
    piece: np.ndarray
    scores: np.ndarray
    beside: np.ndarray
    place: np.ndarray
    floors: np.ndarray

    @cached_property
    def offsets(self) -> np.ndarray:
        """First row of each question, and the number of rows: int64 of shape (questions + 1,)."""
        return np.searchsorted(self.question, np.arange(len(self.floors) + 1))

    @cached_property
    def normalised(self) -> np.ndarray:
        """Scores divided by the best of the question by the same expert, float32 of shape (n, experts)."""
        most = np.zeros((len(self.floors), self.scores.shape[1]), np.float32)
        asked = np.flatnonzero(np.diff(self.offsets))
        most[asked] = np.maximum.reduceat(self.scores, self.offsets[asked]) if len(asked) else 0
        return np.maximum(self.scores, 0) / np.maximum(most[self.question], 1e-9)

    @cached_property
    def relative(self) -> np.ndarray:
        """Scores from 0, the question's worst candidate by the same expert, to 1, its best: float32 as `scores`."""
        least, most = np.zeros(self.floors.shape, np.float32), np.zeros(self.floors.shape, np.float32)
        asked = np.flatnonzero(np.diff(self.offsets))
        if len(asked):
            least[asked] = np.minimum.reduceat(self.scores, self.offsets[asked])
            most[asked] = np.maximum.reduceat(self.scores, self.offsets[asked])
        return (self.scores - least[self.question]) / np.maximum(most - least, 1e-9)[self.question]

    @cached_property
    def standard(self) -> np.ndarray:
        """Scores minus the mean of the question's candidates by their standard deviation: float32 as `scores`."""
        rows, found = np.maximum(np.diff(self.offsets), 1)[:, None], np.zeros((2, *self.floors.shape))
        asked = np.flatnonzero(np.diff(self.offsets))
        for power, total in enumerate(found, 1):
            if len(asked):
                total[asked] = np.add.reduceat(self.scores.astype(np.float64) ** power, self.offsets[asked])
        mean, squares = found / rows
        deviation = np.sqrt(np.maximum(squares - mean**2, 0))
        own = (self.scores - mean[self.question]) / np.maximum(deviation, 1e-6)[self.question]
        return own.astype(np.float32)

    def of(self, questions: np.ndarray) -> Candidates:
        """The candidates of some questions, ascending; they are numbered from 0."""
        rows = np.isin(self.question, questions)
        kept = {field.name: getattr(self, field.name)[rows] for field in fields(self) if field.name != "floors"}
        kept["question"] = np.searchsorted(questions, kept["question"])
        return Candidates(**kept, floors=self.floors[questions])


def find(
    experts: Sequence[Expert],
    finest: Sequence[int],
    layout: Layout,
    corpora: np.ndarray,
    questions: int,
    advance: Callable[[int], object] = lambda done: None,
    allowed: np.ndarray | None = None,
) -> Candidates:
    """The candidates of all questions.

    Args:
        experts: The experts.
        finest: Positions of those that score pieces themselves.
        layout: Of all corpora.
        corpora: Number of the corpus of each document.
        questions: How many.
        advance: Called with the number of questions done.
        allowed: Documents that candidates may be of, bool of shape (documents,); None if all.
    """
    parts = []
    for rows in _blocks(questions, sum(expert.count for expert in experts)):
        parts.append(_block(experts, finest, layout, corpora, rows, allowed))
        advance(rows.stop - rows.start)
    return Candidates(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Candidates)))


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """The k greatest scores above 0 of every row, as a mask; of equal ones those of smaller columns."""
    return greatest(scores, k) & (scores > 0)


def _texts(expert: Expert, layout: Layout, allowed: np.ndarray) -> np.ndarray:
    """Which texts of an expert belong to documents that are allowed, as a mask."""
    first, _ = expert.covered(np.arange(expert.count))
    mask: np.ndarray = allowed[layout.document_of[first]]
    return mask


def _blocks(questions: int, texts: int) -> Iterator[slice]:
    """Rows of questions whose scores of so many texts fit into memory together."""
    step = max(_BLOCK_BYTES // (4 * max(texts, 1)), 1)
    return (slice(at, min(at + step, questions)) for at in range(0, max(questions, 1), step))


def _block(
    experts: Sequence[Expert],
    finest: Sequence[int],
    layout: Layout,
    corpora: np.ndarray,
    rows: slice,
    allowed: np.ndarray | None,
) -> Candidates:
    scores = [expert.scores(rows) for expert in experts]
    found, floors = [], np.zeros((rows.stop - rows.start, len(experts)), np.float32)
    for column, (expert, own) in enumerate(zip(experts, scores, strict=True)):
        if not expert.depth:
            continue
        open_to = own if allowed is None else np.where(_texts(expert, layout, allowed), own, 0)
        chosen = best(open_to, expert.depth)
        full = chosen.sum(axis=1) == expert.depth
        floors[full, column] = np.where(chosen[full], own[full], np.inf).min(axis=1)
        question, text = np.divmod(np.flatnonzero(chosen), max(own.shape[1], 1))
        first, last = expert.covered(text)
        found.append(pairs(np.repeat(question, last - first), ranges(first, last)))
    question, piece = unpaired(np.unique(np.concatenate(found)))
    document = layout.document_of[piece]
    beside = np.zeros((len(piece), 2, len(finest)), np.float32)
    for side, step in enumerate((-1, 1)):
        other = np.clip(piece + step, 0, layout.count(1) - 1)
        there = (layout.document_of[other] == document) & (other != piece)
        for column, number in enumerate(finest):
            beside[there, side, column] = scores[number][question[there], other[there]]
    sizes = layout.spans[piece, 1] - layout.spans[piece, 0]
    place = [piece - layout.offsets[document], np.diff(layout.offsets)[document], sizes, corpora[document]]
    return Candidates(
        question + rows.start,
        piece,
        np.stack([own[question, e.containing(piece)] for e, own in zip(experts, scores, strict=True)], axis=1),
        beside,
        np.stack(place, axis=1).astype(np.int32),
        floors,
    )
