"""Reciprocal rank fusion, as MedRAG does it (Xiong et al. 2024): Σ 1/(100 + rank), ranks from 1, equal weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CONSTANT = 100


def reciprocal_rank_fusion(rankings: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Fuse rankings of the same things.

    Args:
        rankings: int64 arrays of shape (n_i,), best first; a number identifies a thing.

    Returns:
        Distinct numbers, shape (n,), and their float64 scores, best first; equal scores go to the smaller number.
    """
    keys = np.concatenate(rankings)
    if not len(keys):
        return keys, np.zeros(0)
    gains = np.concatenate([1 / (CONSTANT + np.arange(1, len(r) + 1)) for r in rankings])
    distinct, where = np.unique(keys, return_inverse=True)
    scores = np.bincount(where, gains, len(distinct))
    order = np.argsort(-scores, kind="stable")
    return distinct[order], scores[order]
