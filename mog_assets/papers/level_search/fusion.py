"""Reciprocal rank fusion as in MedRAG (Xiong et al. 2024): Σ 1/(100 + rank), ranks from 1, equal weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.resources.arrays import pairs, places, unpaired

CONSTANT = 100


def reciprocal_rank_fusion(
    rankings: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fuse rankings of the same items for the same questions.

    Args:
        rankings: Question and item, int64 arrays of equal length, ordered by question, best first.

    Returns:
        Question, item and float64 score of every item ranked for a question, ordered by question, best first; equal
        scores go to the smaller number.
    """
    keys = np.concatenate([pairs(question, thing) for question, thing in rankings])
    gains = np.concatenate([1 / (CONSTANT + 1 + places(question)) for question, _ in rankings])
    distinct, where = np.unique(keys, return_inverse=True)
    scores = np.bincount(where, gains, len(distinct))
    question, thing = unpaired(distinct)
    order = np.lexsort((-scores, question))
    return question[order], thing[order], scores[order]
