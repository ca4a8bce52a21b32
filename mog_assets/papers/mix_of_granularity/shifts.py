"""How far two distributions of chosen levels are apart."""

from __future__ import annotations

import numpy as np

from mog_assets.evaluate.significance import BLOCK, SIGNS, TOLERANCE, Totals


def shift(before: Totals, now: Totals, samples: int = SIGNS, seed: int = 0) -> tuple[float, float]:
    """Return distance between two distributions over the same classes, and its p-value if they are equal.

    Args:
        before: Number of questions of each class by document: totals of rows with 1 in the class of a question, else 0.
        now: The same for the other sample.
        samples: Number of random divisions of all documents into the two samples.
        seed: Seed of the divisions.

    Returns:
        Total variation distance in 0 … 1 (the share of questions that would have to change class), and its p-value
        by permutation of documents. 0 and 1 if a sample is empty.
    """
    if not before.questions or not now.questions:
        return 0.0, 1.0
    counts, first = np.concatenate([before.sums, now.sums]), len(before.sizes)
    total = counts.sum(axis=0)

    def distance(one: np.ndarray) -> np.ndarray:
        other = total - one
        shares = one / one.sum(axis=-1, keepdims=True) - other / other.sum(axis=-1, keepdims=True)
        return np.asarray(np.abs(shares).sum(axis=-1) / 2)

    observed = float(distance(before.sums.sum(axis=0)))
    rng, extreme = np.random.default_rng(seed), 0
    for at in range(0, samples, BLOCK):
        order = rng.random((min(BLOCK, samples - at), len(counts)))
        chosen = np.zeros(order.shape)
        np.put_along_axis(chosen, np.argpartition(order, first - 1, axis=1)[:, :first], 1.0, axis=1)
        extreme += int((distance(chosen @ counts) >= observed - TOLERANCE).sum())
    return observed, (1 + extreme) / (1 + samples)
