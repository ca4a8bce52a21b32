"""Candidates of questions: pieces with their exact score by every expert; `search` says which are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from mog_assets.resources.arrays import ranges
from mog_assets.resources.lazy import cached_property

# Of the softmax whose entropy says how sure an expert is (Jung and Wang 2026).
TEMPERATURE = 0.1


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
        rare: int8 array of shape (n,): whether it has a rare word of the question, or what it quotes, see
            `exact.LITERAL`; 0 if it has none.
        title: int8 array of shape (n,): words of the title of its document if these are two or more and the question
            has them all, else 0.
        vocabulary: float32 array of shape (questions,): share of the frequent terms of the texts that the encoder's
            vocabulary has as they are, see `vocabulary.known_shares`.
    """

    question: np.ndarray
    piece: np.ndarray
    scores: np.ndarray
    beside: np.ndarray
    place: np.ndarray
    rare: np.ndarray
    title: np.ndarray
    vocabulary: np.ndarray

    @property
    def count(self) -> int:
        """Number of questions."""
        return len(self.vocabulary)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of questions and of experts."""
        return self.count, self.scores.shape[1]

    @cached_property
    def offsets(self) -> np.ndarray:
        """First row of each question, and the number of rows: int64 of shape (questions + 1,)."""
        return np.searchsorted(self.question, np.arange(self.count + 1))

    @cached_property
    def _filled(self) -> np.ndarray:
        """Questions with candidates."""
        return np.flatnonzero(self.offsets[1:] > self.offsets[:-1])

    @cached_property
    def _rows(self) -> np.ndarray:
        """Candidates of each question, at least 1, of shape (questions, 1)."""
        return np.maximum(np.diff(self.offsets), 1)[:, None]

    def reduced(self, function: np.ufunc, values: np.ndarray) -> np.ndarray:
        """Put the rows of each question together: of shape (questions, columns), 0 where there are none."""
        filled = self._filled
        if len(filled) == self.count:
            return np.asarray(function.reduceat(values, self.offsets[:-1]))
        total = np.zeros((self.count, values.shape[1]), values.dtype)
        if len(filled):
            total[filled] = function.reduceat(values, self.offsets[filled])
        return total

    @cached_property
    def normalised(self) -> np.ndarray:
        """Scores divided by the best of the question by the same expert, float32 of shape (n, experts)."""
        most = np.maximum(self.reduced(np.maximum, self.scores), 1e-9)
        return np.maximum(self.scores, 0) / most.take(self.question, axis=0)

    @cached_property
    def relative(self) -> np.ndarray:
        """Scores from 0, the question's worst candidate by the same expert, to 1, its best: float32 as `scores`."""
        least, span = self.bounds
        return (self.scores - least.take(self.question, axis=0)) / span.take(self.question, axis=0)

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Score of each question's worst candidate by every expert, and how much greater that of the best is."""
        least, most = self.reduced(np.minimum, self.scores), self.reduced(np.maximum, self.scores)
        return least, np.maximum(most - least, 1e-9)

    @cached_property
    def standard(self) -> np.ndarray:
        """Scores minus the mean of the question's candidates by their standard deviation: float32 as `scores`."""
        rows, scores = self._rows, self.scores.astype(np.float64)
        mean, squares = self.reduced(np.add, scores) / rows, self.reduced(np.add, scores**2) / rows
        deviation = np.sqrt(np.maximum(squares - mean**2, 0))
        standard = (self.scores - mean[self.question]) / np.maximum(deviation, 1e-6)[self.question]
        return standard.astype(np.float32)

    @cached_property
    def chances(self) -> np.ndarray:
        """Softmax of the relative scores over the candidates of each question: float64 as `scores`."""
        # The best has 1.
        powers = np.exp((self.relative.astype(np.float64) - 1) / TEMPERATURE)
        return np.asarray(powers / np.maximum(self.reduced(np.add, powers), 1e-300).take(self.question, axis=0))

    @cached_property
    def certainty(self) -> np.ndarray:
        """One minus the normalised entropy of `chances`, 0 or more: float64 of shape (questions, experts)."""
        chances = self.chances
        entropy = -self.reduced(np.add, chances * np.log(np.maximum(chances, 1e-300)))
        return np.maximum(1 - entropy / np.log(np.maximum(self._rows, 2)), 0)

    @cached_property
    def confidence(self) -> np.ndarray:
        """Return how sure each expert is of its best candidate, 0 or more: float64 of shape (questions, experts).

        How many standard deviations the best lies above the mean, times `certainty`; 0 where all candidates have the
        same score.
        """
        relative, rows = self.relative.astype(np.float64), self._rows
        mean = self.reduced(np.add, relative) / rows
        deviation = np.sqrt(np.maximum(self.reduced(np.add, relative**2) / rows - mean**2, 1e-12))
        return np.where(mean > 0, (1 - mean) / deviation * self.certainty, 0)

    @cached_property
    def typical_pieces(self) -> np.ndarray:
        """Median over the candidates of each question of the pieces of their documents, float64 of shape (questions,).

        1 where there is no candidate.
        """
        medians, pieces = np.ones(self.count), self.place[:, 1]
        for question, (first, last) in enumerate(pairwise(self.offsets.tolist())):
            if first < last:
                ascending = np.sort(pieces[first:last])
                medians[question] = (ascending[(last - first - 1) // 2] + ascending[(last - first) // 2]) / 2
        return medians

    def with_scores(self, scores: np.ndarray) -> Candidates:
        """Return same with the scores by further experts, of shape (n, further experts), after those that they have."""
        extended, further = (replace(self, scores=s) for s in (np.concatenate([self.scores, scores], axis=1), scores))
        # What is known of the experts so far is not computed anew.
        for name in ("offsets", "_filled", "_rows", "typical_pieces"):
            known = getattr(self, name)
            extended.__dict__[name] = further.__dict__[name] = known
        for name in ("relative", "chances", "certainty", "confidence"):
            extended.__dict__[name] = np.concatenate([getattr(self, name), getattr(further, name)], axis=1)
        return extended

    def of(self, questions: np.ndarray) -> Candidates:
        """Return the candidates of some questions, which are numbered from 0 in this order."""
        first, last = self.offsets[questions], self.offsets[questions + 1]
        chosen = {name: getattr(self, name)[ranges(first, last)] for name in COLUMNS}
        chosen["question"] = np.repeat(np.arange(len(questions)), last - first)
        return Candidates(**chosen, **{name: getattr(self, name)[questions] for name in OF_QUESTIONS})


@dataclass(frozen=True)
class Inputs:
    """Questions with their candidates.

    Attributes:
        candidates: The candidates.
        vectors: Of the questions, float32 of shape (questions, size).
        words: Terms of each question, shape (questions,).
        finest: Positions of the experts that score pieces themselves.
        columns: Result of `features.of_candidates` if it is known already, else None.
    """

    candidates: Candidates
    vectors: np.ndarray
    words: np.ndarray
    finest: Sequence[int]
    columns: np.ndarray | None = None


def ordered(candidates: Candidates, scores: np.ndarray) -> np.ndarray:
    """Return rows of candidates by question, greatest score first; of equal ones the earlier piece."""
    return np.lexsort((-scores, candidates.question))


def concatenated(parts: Sequence[Candidates], experts: int) -> Candidates:
    """Put the candidates of questions after those of others; `experts` is how many score each."""
    if not parts:
        return _no_candidates(experts)
    if len(parts) == 1:
        return parts[0]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in (*COLUMNS, *OF_QUESTIONS)}
    firsts = np.cumsum([0, *(part.count for part in parts)])
    columns["question"] = np.concatenate([part.question + first for part, first in zip(parts, firsts, strict=False)])
    return Candidates(**columns)


def _no_candidates(experts: int) -> Candidates:
    """Return the candidates of no questions."""
    none, few = np.zeros(0, np.int64), np.zeros(0, np.int8)
    scores, beside, place = np.zeros((0, experts)), np.zeros((0, 2, 2)), np.zeros((0, 4), np.int32)
    vocabulary = np.zeros(0, np.float32)
    return Candidates(none, none, scores.astype(np.float32), beside.astype(np.float32), place, few, few, vocabulary)


# Pieces of each of the two searches whose sections a question's candidates may be of.
NEAREST = 64
# How many texts of levels 1, 2, … give candidates; every further level as the last.
DEPTHS = (40, 24, 16, 10, 8)
# Fields with a row for each question, and those with a row for each candidate.
OF_QUESTIONS = ("vocabulary",)
COLUMNS = tuple(field.name for field in fields(Candidates) if field.name not in OF_QUESTIONS)


def looked_up(wanted: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the value of each wanted key, 0 where there is none; keys are ascending."""
    if not len(keys):
        return np.zeros(len(wanted), values.dtype)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], values.dtype.type(0))
