"""Intervals and tests over questions: percentile bootstrap, permutation tests, Holm's correction, effect sizes."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

# Resamples per matrix product: bounds memory to some 150 MB for 14,000 questions.
_BLOCK = 500
_RESAMPLES = 2000
# Means that differ by less than rounding count as equal, so that ties are not decided by the order of additions.
_TOLERANCE = 1e-9


def bootstrap_interval(
    values: np.ndarray, samples: int = _RESAMPLES, seed: int = 0, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap interval of each column's mean.

    Questions are drawn, not cells, so that all columns see the same resamples.

    Args:
        values: float array of shape (n, m): questions by columns.
        samples: Number of resamples.
        seed: Of the resamples.
        level: Share of the resampled means inside the interval.

    Returns:
        Lower and upper ends, each of shape (m,); NaN where there is no question.

    References:
        Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
    """
    values = np.asarray(values, np.float64)
    if not len(values):
        return np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    low, high = np.quantile(resampled_means(values, samples, seed), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def resampled_means(values: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """Means of each column in resamples of the rows, of shape (samples, m)."""
    n, m = values.shape
    rng = np.random.default_rng(seed)
    means = np.empty((samples, m))
    for at in range(0, samples, _BLOCK):
        size = min(_BLOCK, samples - at)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
        means[at : at + size] = counts @ values / n
    return means


def permutation_p(differences: np.ndarray, samples: int = 10000, seed: int = 0) -> np.ndarray:
    """Two-sided p-value of each column's mean under random signs (paired permutation test).

    Args:
        differences: float array of shape (n, m): questions by comparisons.
        samples: Number of random assignments of signs.
        seed: Of the signs.

    Returns:
        (1 + number of means at least as extreme as the observed) / (1 + samples), of shape (m,); 1 where every
        difference is 0.

    References:
        Smucker, Allan and Carterette 2007; the added ones after Phipson and Smyth 2010.
    """
    differences = np.asarray(differences, np.float64)
    n, m = differences.shape
    if not n:
        return np.ones(m)
    rng = np.random.default_rng(seed)
    observed = np.abs(differences.sum(axis=0))
    bar = observed - _TOLERANCE * np.abs(differences).sum(axis=0)
    extreme = np.zeros(m, np.int64)
    for at in range(0, samples, _BLOCK):
        signs = rng.integers(0, 2, size=(min(_BLOCK, samples - at), n), dtype=np.int8) * 2.0 - 1.0
        extreme += (np.abs(signs @ differences) >= bar).sum(axis=0)
    return (1 + extreme) / (1 + samples)


def holm(p: np.ndarray) -> np.ndarray:
    """P-values corrected for the number of tests.

    Args:
        p: float array of shape (m,); NaN is no test.

    Returns:
        Adjusted p-values, at most 1, of shape (m,); NaN stays NaN.

    References:
        Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    p = np.asarray(p, np.float64)
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


def effect_size(differences: np.ndarray) -> np.ndarray:
    """Cohen's d_z of each column: the mean of paired differences over their standard deviation.

    Args:
        differences: float array of shape (n, m): questions by comparisons.

    Returns:
        float array of shape (m,): 0 where no difference is other than 0; NaN where all are one other number: they have
        no spread to measure by.

    References:
        Cohen 1988, Statistical Power Analysis for the Behavioral Sciences, section 2.3.5; Lakens 2013, eq. 6.
    """
    differences = np.asarray(differences, np.float64)
    spread = _spread(differences)
    effect = np.full(spread.shape, np.nan)
    np.divide(differences.sum(axis=0), spread * max(len(differences), 1), out=effect, where=spread > 0)
    effect[~differences.any(axis=0)] = 0.0
    return effect


def detectable(differences: np.ndarray, alpha: float | np.ndarray = 0.05, power: float = 0.8) -> np.ndarray:
    """The smallest mean difference that a two-sided paired test on this many questions would have shown.

    For a null result it tells what can be ruled out: (z_{1−α/2} + z_power) · sd / √n, by the normal approximation.

    Args:
        differences: float array of shape (n, m): questions by comparisons.
        alpha: Level of the test, in (0, 1); one, or one a column.
        power: Chance that such a difference is shown, in (0, 1).

    Returns:
        Absolute mean difference of shape (m,), at least 0; NaN where all differences are the same number, which does
        not tell how much differences vary, or where so few questions can show nothing: random signs of n questions
        give no p-value below 2^(1 − n).

    References:
        Bloom 1995, Minimum Detectable Effects; Cohen 1988, chapter 2.
    """
    differences = np.asarray(differences, np.float64)
    spread, alpha = _spread(differences), np.asarray(alpha)
    factor = norm.ppf(1 - alpha / 2) + norm.ppf(power)
    enough = 2.0 ** (1 - len(differences)) <= alpha
    return np.where((spread > 0) & enough, factor * spread / np.sqrt(max(len(differences), 1)), np.nan)


def _spread(differences: np.ndarray) -> np.ndarray:
    """Standard deviation (n − 1) of each column; 0 where only rounding differs, NaN for fewer than two rows."""
    if len(differences) < 2:
        return np.full(differences.shape[1], np.nan)
    spread = differences.std(axis=0, ddof=1)
    return np.where(spread > _TOLERANCE * np.abs(differences).max(axis=0), spread, 0.0)


def compare_cells(values: np.ndarray, baselines: np.ndarray, seed: int, alpha: float = 0.05) -> dict[str, np.ndarray]:
    """Means over questions, and how they differ from those of a baseline on the same questions.

    All intervals come from the same resamples, all p-values from the same random signs.

    Args:
        values: float array of shape (n, cells, measures), without NaN; n at least 1.
        baselines: int array of shape (cells, measures): the cell that each is compared with; −1, or the cell itself,
            where there is none.
        seed: Of resamples and signs.
        alpha: Level of the family of a measure's comparisons.

    Returns:
        Arrays of shape (cells, measures): `value` (mean) with its 95 % bootstrap interval `low` … `high`; `difference`
        (mean difference, cell minus baseline) with its interval `difference_low` … `difference_high`; `effect`
        (`effect_size`); `p` (`permutation_p`, Holm-corrected over the comparisons of the measure); `detectable` (with a
        power of .8, at alpha divided by the number of those comparisons, which is what Holm's first step asks for). All
        but the first three are NaN where there is no baseline.
    """
    values = np.asarray(values, np.float64)
    n, cells, measures = values.shape
    ends = [0.025, 0.975]
    means = resampled_means(values.reshape(n, -1), _RESAMPLES, seed).reshape(_RESAMPLES, cells, measures)
    low, high = np.quantile(means, ends, axis=0)
    found = {"value": values.mean(axis=0), "low": low, "high": high}

    tested = (baselines >= 0) & (baselines != np.arange(cells)[:, None])
    names = ("difference", "difference_low", "difference_high", "effect", "p", "detectable")
    found |= {name: np.full(tested.shape, np.nan) for name in names}
    cell, measure = np.nonzero(tested)
    if not len(cell):
        return found
    baseline = baselines[tested]
    differences = values[:, cell, measure] - values[:, baseline, measure]
    found["difference"][tested] = differences.mean(axis=0)
    # Resampled means of differences are differences of resampled means.
    low, high = np.quantile(means[:, cell, measure] - means[:, baseline, measure], ends, axis=0)
    found["difference_low"][tested], found["difference_high"][tested] = low, high
    found["effect"][tested] = effect_size(differences)
    found["detectable"][tested] = detectable(differences, alpha / tested.sum(axis=0)[measure])
    found["p"][tested] = permutation_p(differences, seed=seed)
    found["p"] = np.stack([holm(column) for column in found["p"].T], axis=1)
    return found


def shift(before: np.ndarray, now: np.ndarray, samples: int = 10000, seed: int = 0) -> tuple[float, float]:
    """How far two distributions over the same classes lie apart, and how likely that is if they are one.

    Args:
        before: Number of cases in each class, int array of shape (m,).
        now: Of the other sample, shape (m,).
        samples: Number of random divisions of all cases into the two samples.
        seed: Of the divisions.

    Returns:
        Total variation distance in 0 … 1 (the share of cases that would have to change class), and its p-value by
        permutation. 0 and 1 where a sample is empty.
    """
    before, now = np.asarray(before, np.int64), np.asarray(now, np.int64)
    if not before.sum() or not now.sum():
        return 0.0, 1.0

    def distance(second: np.ndarray) -> np.ndarray:
        first = before + now - second
        return np.abs(first / before.sum() - second / now.sum()).sum(axis=-1) / 2

    observed = float(distance(now))
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(before + now, int(now.sum()), size=samples)
    extreme = int((distance(drawn) >= observed - _TOLERANCE).sum())
    return observed, (1 + extreme) / (1 + samples)
