"""Where in documents the answers to training questions stood: questions of a kind are often answered at the same place.

In documents that follow a scheme, "How is X treated?" is answered near the end and "What is X?" at the beginning, and
each corpus has a scheme of its own. A candidate's features are the shares of evidence, among the questions that are
most like this one, that stood at its place in documents of the same corpus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from mog_assets.resources.arrays import ranges
from mog_assets.search.candidates import Candidates
from mog_assets.search.relevance import Relevance

# Training questions that are looked at, the most similar ones.
NEAREST = 24
# Pieces with evidence that count of each, from the beginning of the document.
_PIECES = 12
# How fast a question counts less as its similarity falls, and how near places in documents must be.
_SHARPNESS, _WIDTH = 12.0, 0.12
# Keeps the share small where hardly any evidence is known.
_LEAST = 1e-3
# Training questions that are compared with the others at a time.
_BLOCK = 256
NAMES = ("answers near this place", "answers at this number", "answers at this number from the end")


@dataclass(frozen=True)
class Places:
    """Training questions with the places of their evidence.

    Attributes:
        vectors: Of the questions, float32 of shape (questions, size).
        document: Number of what each question is about, int32 of shape (questions,).
        offsets: First row of each question, and the number of rows: int32 of shape (questions + 1,).
        place: int32 array of shape (rows, 3): number of a piece with evidence in its document, pieces of the document,
            corpus.
        share: Share of the piece that is evidence, float32 of shape (rows,).
    """

    vectors: np.ndarray
    document: np.ndarray
    offsets: np.ndarray
    place: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, gold: Relevance, vectors: np.ndarray, documents: Sequence[str]) -> Places:
        """Return those of training questions.

        Args:
            gold: Their candidates and evidence.
            vectors: Of the questions.
            documents: What each question is about.
        """
        candidates = gold.candidates
        rows = np.flatnonzero(gold.covered)
        question = candidates.question[rows]
        first = np.searchsorted(question, question)
        first_pieces = np.arange(len(rows)) - first < _PIECES
        rows, question = rows[first_pieces], question[first_pieces]
        return cls(
            np.asarray(vectors, np.float32),
            np.unique(np.asarray(documents, str), return_inverse=True)[1].astype(np.int32),
            np.searchsorted(question, np.arange(len(vectors) + 1)).astype(np.int32),
            candidates.place[rows][:, [0, 1, 3]].astype(np.int32),
            (gold.covered[rows] / np.maximum(candidates.place[rows, 2], 1)).astype(np.float32),
        )

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Return what `from_arrays` reads."""
        return {field.name: np.ascontiguousarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Places:
        """Read from `arrays`."""
        return cls(*(arrays[field.name] for field in fields(cls)))

    def features(self, candidates: Candidates, vectors: np.ndarray, themselves: bool = False) -> np.ndarray:
        """Return the features of candidates.

        Args:
            candidates: The candidates.
            vectors: Of the questions, shape (questions, size).
            themselves: These are the training questions; those about the same document are left out.

        Returns:
            float32 array of shape (n, 3), see `NAMES`.
        """
        result = np.zeros((len(candidates.question), len(NAMES)), np.float32)
        count = min(NEAREST, len(self.vectors))
        # A question alone gets the scores that it gets among others, which a product of many gives only nearly.
        step = _BLOCK if themselves else 1
        for first in range(0, len(vectors), step):
            block = np.asarray(vectors[first : first + step], np.float32)
            # For a single question the threads of BLAS wait for each other, beside other work most of the time.
            likeness = block @ self.vectors.T if themselves else np.einsum("ij,kj->ik", block, self.vectors)
            for row, like in enumerate(likeness, first):
                if themselves:
                    like[self.document == self.document[row]] = -np.inf
                nearest = np.argpartition(-like, count - 1)[:count]
                nearest = nearest[like[nearest] > -np.inf]
                if len(nearest):
                    near = np.exp((like[nearest] - like[nearest].max()) * _SHARPNESS)
                    here = slice(*candidates.offsets[row : row + 2])
                    result[here] = self._shares(candidates.place[here], nearest, near)
        return result

    def _shares(self, place: np.ndarray, nearest: np.ndarray, near: np.ndarray) -> np.ndarray:
        begin, end = self.offsets[nearest], self.offsets[nearest + 1]
        rows = ranges(begin, end)
        weight = np.repeat(near, end - begin) * self.share[rows]
        number, pieces, corpus = self.place[rows].T
        same_corpus = place[:, 3, None] == corpus
        apart = (_relative(place[:, 0], place[:, 1])[:, None] - _relative(number, pieces)) / _WIDTH
        similar = (
            np.exp(-(apart * apart)) * same_corpus,
            (place[:, 0, None] == number) & same_corpus,
            ((place[:, 1] - place[:, 0])[:, None] == pieces - number) & same_corpus,
        )
        return np.stack([shares @ weight for shares in similar], axis=1) / (same_corpus @ weight + _LEAST)[:, None]


def _relative(number: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    return (number / np.maximum(pieces - 1, 1)).astype(np.float32)
