"""Features of candidates: what `mix` knows of a piece and of the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.resources.arrays import pairs, places
from mog_assets.search.answer_places import NAMES as PLACES
from mog_assets.search.candidates import Candidates

# A change of what a feature means changes this; models name it.
VERSION = "4"
# Principal components of the questions' vectors.
COMPONENTS = 16
# Ranks enter as 1 / (1 + rank / RANKS).
_RANKS = 5


@dataclass(frozen=True)
class Components:
    """Principal components of question vectors: `mean` of shape (size,) and `axes` of shape (size, components)."""

    mean: np.ndarray
    axes: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray) -> Components:
        """Return the components of these vectors, shape (questions, size), strongest first."""
        mean = vectors.mean(axis=0, dtype=np.float64)
        centred = vectors - mean
        values, axes = np.linalg.eigh(centred.T @ centred)
        axes = axes[:, np.argsort(-values)[:COMPONENTS]]
        # The sign of a component is arbitrary: its greatest entry is positive.
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
        return cls(mean.astype(np.float32), axes.astype(np.float32))

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """Return float32 array of shape (questions, components)."""
        return ((vectors - self.mean) @ self.axes).astype(np.float32)


def names(experts: Sequence[str], finest: Sequence[str]) -> list[str]:
    """Return names of the features, in the order of the columns of `table`.

    Args:
        experts: Names of the experts.
        finest: Those that score pieces themselves.
    """
    columns = [f"{what} {name}" for what in ("score", "z", "rank", "rank in document") for name in experts]
    columns += [f"{name} {side}" for side in ("before", "after") for name in finest]
    columns += ["number in document", "number from the end", "relative place", "pieces of document", "characters"]
    columns += ["corpus", "words of question"]
    columns += [f"{what} {name}" for name in finest for what in ("best", "tenth of best")]
    return [*columns, *(f"component {i}" for i in range(1, COMPONENTS + 1)), *PLACES]


def of_candidates(candidates: Candidates, finest: Sequence[int], words: np.ndarray) -> np.ndarray:
    """Return what does not depend on the training questions: the first columns of `table`.

    Args:
        candidates: The candidates.
        finest: Positions of the experts that score pieces themselves.
        words: Terms of every question, shape (questions,).

    Returns:
        float32 array of shape (n, columns).
    """
    question, scores = candidates.question, candidates.scores
    number, pieces, characters, corpus = candidates.place.T.astype(np.float32)
    most, tenth = _best_and_tenth(candidates, finest)
    of_question = np.stack([most, tenth / np.maximum(most, 1e-9)], axis=2).reshape(len(most), 2 * most.shape[1])
    beside = candidates.beside / np.maximum(most, 1e-9)[question][:, None]
    document = pairs(question, candidates.piece - candidates.place[:, 0])
    columns = [
        candidates.normalised,
        candidates.standard,
        1 / (1 + _ranks(scores, question) / _RANKS),
        1 / (1 + _ranks(scores, np.unique(document, return_inverse=True)[1]) / _RANKS),
        beside.reshape(len(question), beside.shape[1] * beside.shape[2]),
        np.stack([number, pieces - 1 - number, number / np.maximum(pieces - 1, 1), pieces, characters, corpus], axis=1),
        np.asarray(words, np.float32)[question, None],
        of_question[question],
    ]
    return np.concatenate(columns, axis=1, dtype=np.float32)


def table(*columns: np.ndarray) -> np.ndarray:
    """Return the features of every candidate, float32 of shape (n, features).

    Args:
        columns: In the order of `names`: result of `of_candidates`, components of its question's vector, and result of
            `Places.features`; or only the first of these. Each of shape (n, columns).
    """
    return np.concatenate(columns, axis=1, dtype=np.float32)


def _ranks(scores: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return number of rows of the same group with a greater score, by column; float32 of the shape of `scores`.

    Args:
        scores: float32 array of shape (n, columns).
        group: Number of the group of each row, ascending.
    """
    ranks = np.empty(scores.shape, np.float32)
    first = np.searchsorted(group, group)
    for column in range(scores.shape[1]):
        # One number of group and score: sorting numbers takes a tenth of the time of sorting by two columns.
        keys = pairs(group, _descending(scores[:, column]))
        order = np.argsort(keys)
        keys = keys[order]
        new = np.concatenate([[True], keys[1:] != keys[:-1]])
        # Equal scores share the rank of the first.
        ranks[order, column] = np.maximum.accumulate(np.where(new, np.arange(len(keys)), 0)) - first[order]
    return ranks


def _descending(scores: np.ndarray) -> np.ndarray:
    """Return integers 0 … 2^32 − 1 in the opposite order of float32 numbers."""
    bits = np.ascontiguousarray(scores + np.float32(0)).view(np.int32).astype(np.int64)
    ascending = np.where(bits < 0, 2**31 - 1 - (bits & (2**31 - 1)), 2**31 + bits)
    return 2**32 - 1 - ascending


def _best_and_tenth(candidates: Candidates, finest: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the best and the tenth score of pieces of every question, each of shape (questions, finest)."""
    shape = (candidates.count, len(finest))
    most, tenth = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for column, expert in enumerate(finest):
        order = np.argsort(pairs(candidates.question, _descending(candidates.scores[:, expert])))
        scores, question = candidates.scores[order, expert], candidates.question[order]
        place = places(question)
        most[question[place == 0], column] = scores[place == 0]
        tenth[question[place == 9], column] = scores[place == 9]
    return most, tenth
