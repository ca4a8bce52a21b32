"""The granularity mix: pieces of text ranked by the weighted scores of the chunks that contain them.

Pieces are level-1 chunks, the parts of coarser chunks, or nodes of the sentence graph, the parts of neighbourhoods.

References: Zhong et al. 2024 (Mix-of-Granularity), sections 3.1 and 3.3 and figure 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mog_assets.papers.level_search.searchers import LevelMatches
from mog_assets.resources.arrays import first_of_each, pairs, unpaired


class Granularities(Protocol):
    """Chunks of several granularities over the same pieces; granularities are numbered from 1, the finest."""

    @property
    def count(self) -> int:
        """Number of granularities."""

    def starts(self, granularity: int) -> np.ndarray:
        """Return first chunk of each corpus, int64 of shape (corpora,)."""

    def spread(self, matches: LevelMatches, granularity: int) -> tuple[np.ndarray, np.ndarray]:
        """Return pieces in chunks of a granularity: the row of the hit and the piece, int64 each, in order of rows."""

    def containing(self, pieces: np.ndarray, granularity: int) -> np.ndarray:
        """Return the chunk of a granularity that each piece belongs to, whatever was retrieved."""


@dataclass(frozen=True)
class RankedChunks:
    """Pieces in at least one retrieved chunk of any granularity, in order of question and piece.

    Attributes:
        question, piece: int64 arrays of shape (n,).
        scores: t(c), float64 of shape (n, granularities): the score of the chunk of granularity g that contains the
            candidate if that chunk was retrieved, else 0; of several such chunks, the best.
        chunks: int64 of the same shape: that chunk, −1 if there is none.
    """

    question: np.ndarray
    piece: np.ndarray
    scores: np.ndarray
    chunks: np.ndarray


def candidates(matches: Sequence[LevelMatches], made_of: Granularities) -> RankedChunks:
    """Spread the chunks retrieved at each granularity over the pieces they contain.

    Args:
        matches: Per granularity, finest first: the k_r best chunks of each corpus.
        made_of: The chunks.
    """
    keys, rows = [], []
    for granularity, hits_of in enumerate(matches, 1):
        row, piece = made_of.spread(hits_of, granularity)
        # Hits are best first, so the first of several chunks around a piece is the best.
        first = first_of_each(hits_of.question[row], piece)
        keys.append(pairs(hits_of.question[row[first]], piece[first]))
        rows.append(row[first])
    distinct, where = np.unique(np.concatenate(keys), return_inverse=True)
    scores = np.zeros((len(distinct), len(matches)))
    chunks = np.full((len(distinct), len(matches)), -1, np.int64)
    for column, (hits_of, row, place) in enumerate(
        zip(matches, rows, np.split(where, np.cumsum([len(row) for row in rows])[:-1]), strict=True)
    ):
        scores[place, column] = hits_of.score[row]
        chunks[place, column] = hits_of.chunk[row]
    return RankedChunks(*unpaired(distinct), scores, chunks)


def emission_levels(weights: np.ndarray) -> np.ndarray:
    """Return g_r of every question: the granularity of greatest weight, the finer of equals; 0 if none is above 0.

    Args:
        weights: float array of shape (questions, granularities).
    """
    return np.where((weights > 0).any(axis=1), weights.argmax(axis=1) + 1, 0)


def ranked(chunks: RankedChunks, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the candidates by t(c)·w, question by question, best first; and their scores.

    Args:
        chunks: The candidates.
        weights: float array of shape (questions, granularities).
    """
    scores = np.einsum("ij,ij->i", chunks.scores, weights[chunks.question])
    order = np.lexsort((-scores, chunks.question))
    return order, scores[order]


def emit(
    chunks: RankedChunks, order: np.ndarray, scores: np.ndarray, levels: np.ndarray, made_of: Granularities
) -> tuple[LevelMatches, np.ndarray]:
    """Return for each candidate the chunk of its question's granularity that contains it; each chunk once.

    Args:
        chunks: The candidates.
        order: Rows of the candidates, from `ranked`.
        scores: Theirs.
        levels: int array of shape (questions,); 0 emits nothing.
        made_of: The chunks.

    Returns:
        The chunks, and the granularity of each.
    """
    emitted = levels[chunks.question[order]] > 0
    order, scores = order[emitted], scores[emitted]
    question, piece = chunks.question[order], chunks.piece[order]
    level = levels[question]
    chunk = chunks.chunks[order, level - 1]
    for granularity in np.unique(level):
        here = np.flatnonzero((level == granularity) & (chunk < 0))
        chunk[here] = made_of.containing(piece[here], int(granularity))
    first = first_of_each(question, chunk)
    return LevelMatches(question[first], chunk[first], scores[first]), level[first]
