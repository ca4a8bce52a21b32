"""The granularity mix: level-1 chunks ranked by the weighted scores of the chunks that contain them.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.1 and figure 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.arrays import first_of_each, pairs, ranges
from mog_assets.corpus.chunks import Layout
from mog_assets.retrieval.search import Hits


@dataclass(frozen=True)
class Candidates:
    """Level-1 chunks that lie in at least one retrieved chunk of any level, in order of question and chunk.

    Attributes:
        question, finest: int64 arrays of shape (n,).
        scores: t(c), float64 of shape (n, levels): the score of the level-g chunk that contains the candidate where
            that chunk was retrieved, else 0.
    """

    question: np.ndarray
    finest: np.ndarray
    scores: np.ndarray


def candidates(hits: Sequence[Hits], layout: Layout) -> Candidates:
    """Spread the chunks retrieved at each level over the level-1 chunks they contain.

    Args:
        hits: Per level, finest first: the k_r best chunks of each corpus.
        layout: Of all corpora.
    """
    keys, levels, scores = [], [], []
    for number, found in enumerate(hits):
        first, last = layout.covered(found.chunk, number + 1)
        keys.append(pairs(np.repeat(found.question, last - first), ranges(first, last)))
        levels.append(np.full(len(keys[-1]), number))
        scores.append(np.repeat(found.score, last - first))
    distinct, where = np.unique(np.concatenate(keys), return_inverse=True)
    table = np.zeros((len(distinct), len(hits)))
    table[where, np.concatenate(levels)] = np.concatenate(scores)
    return Candidates(distinct >> 40, distinct & (2**40 - 1), table)


def emission_levels(weights: np.ndarray) -> np.ndarray:
    """g_r of every question: the level with the greatest weight, the finer one of equals; 0 where no weight is above 0.

    Args:
        weights: float array of shape (questions, levels).
    """
    return np.where((weights > 0).any(axis=1), weights.argmax(axis=1) + 1, 0)


def mix(found: Candidates, weights: np.ndarray) -> Hits:
    """Rank candidates by t(c)·w: level-1 chunks, best first.

    Args:
        found: The candidates.
        weights: float array of shape (questions, levels).
    """
    scores = np.einsum("ij,ij->i", found.scores, weights[found.question])
    order = np.lexsort((-scores, found.question))
    return Hits(found.question[order], found.finest[order], scores[order])


def emit(ranked: Hits, levels: np.ndarray, layout: Layout) -> tuple[Hits, np.ndarray]:
    """For each level-1 chunk the chunk of its question's level that contains it; each chunk once.

    Args:
        ranked: From `mix`.
        levels: int array of shape (questions,); nothing is emitted where it is 0.
        layout: Of all corpora.

    Returns:
        The chunks, and the level of each.
    """
    level = levels[ranked.question]
    chunk = np.empty_like(ranked.chunk)
    for number in np.unique(level[level > 0]):
        here = level == number
        chunk[here] = layout.containing(ranked.chunk[here], int(number))
    emitted = np.flatnonzero(level > 0)
    kept = emitted[first_of_each(ranked.question[emitted], chunk[emitted])]
    return Hits(ranked.question[kept], chunk[kept], ranked.score[kept]), level[kept]
