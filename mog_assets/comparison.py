"""Compare methods on the same questions: differences, intervals, p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mog_assets.significance import (
    BLOCK,
    RESAMPLES,
    SIGNS,
    TOLERANCE,
    Totals,
    by_document,
    detectable,
    effect_size,
    ends,
    holm,
    permutation_p,
    resampled_means,
)


def compare_cells(
    values: np.ndarray,
    baselines: np.ndarray,
    documents: Sequence[Any] | np.ndarray,
    seed: int,
    alpha: float = 0.05,
) -> dict[str, np.ndarray]:
    """Means over questions, and their differences from a baseline on the same questions.

    All intervals come from the same resamples, all p-values from the same random signs.

    Args:
        values: float array of shape (n, cells, measures), without NaN; n at least 1.
        baselines: int array of shape (cells, measures): the cell that each is compared with; −1, or the cell itself,
            for no comparison.
        documents: The document of each of the n questions.
        seed: Seed of resamples and signs.
        alpha: Familywise level of a measure's comparisons.

    Returns:
        Arrays of shape (cells, measures): `value` (mean) with its 95 % interval `low` … `high`; `difference` (mean
        difference, cell minus baseline) with its interval `difference_low` … `difference_high`; `effect`
        (`effect_size`); `p` (`permutation_p`, Holm-corrected over the comparisons of the measure); `detectable` (with a
        power of .8, at alpha divided by the number of those comparisons, as Holm's first step requires). All except the
        first three are NaN without a baseline; intervals are NaN for one document.
    """
    values = np.asarray(values, np.float64)
    n, cells, measures = values.shape
    totals = by_document(values.reshape(n, -1), documents)
    means = resampled_means(totals, RESAMPLES, seed).reshape(RESAMPLES, cells, measures)
    low, high = ends(means, totals)
    columns = {"value": totals.mean.reshape(cells, measures), "low": low, "high": high}

    tested = (baselines >= 0) & (baselines != np.arange(cells)[:, None])
    names = ("difference", "difference_low", "difference_high", "effect", "p", "detectable")
    columns |= {name: np.full(tested.shape, np.nan) for name in names}
    cell, measure = np.nonzero(tested)
    if not len(cell):
        return columns
    baseline = baselines[tested]
    differences = totals.columns(cell * measures + measure).minus(totals.columns(baseline * measures + measure))
    columns["difference"][tested] = differences.mean
    # Resampled means of differences equal differences of resampled means.
    low, high = ends(means[:, cell, measure] - means[:, baseline, measure], totals)
    columns["difference_low"][tested], columns["difference_high"][tested] = low, high
    columns["effect"][tested] = effect_size(differences)
    columns["detectable"][tested] = detectable(differences, alpha / tested.sum(axis=0)[measure])
    columns["p"][tested] = permutation_p(differences, seed=seed)
    columns["p"] = np.stack([holm(column) for column in columns["p"].T], axis=1)
    return columns


def shift(before: Totals, now: Totals, samples: int = SIGNS, seed: int = 0) -> tuple[float, float]:
    """Distance between two distributions over the same classes, and its p-value if they are equal.

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
    whole = counts.sum(axis=0)

    def distance(one: np.ndarray) -> np.ndarray:
        other = whole - one
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
