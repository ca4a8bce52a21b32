"""Compare methods on the same questions: differences, intervals, p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mog_assets.evaluate.significance import (
    RESAMPLES,
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
