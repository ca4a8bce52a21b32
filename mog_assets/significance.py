"""Intervals and tests over questions: percentile bootstrap, permutation tests, Holm's correction."""

from __future__ import annotations

import numpy as np

# Resamples per matrix product: bounds memory to some 10 MB for thousands of questions.
_BLOCK = 500
# Means that differ by less than rounding count as equal, so that ties are not decided by the order of additions.
_TOLERANCE = 1e-9


def bootstrap_interval(
    values: np.ndarray, samples: int = 2000, seed: int = 0, level: float = 0.95
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
    n, m = values.shape
    if not n:
        return np.full(m, np.nan), np.full(m, np.nan)
    rng = np.random.default_rng(seed)
    means = np.empty((samples, m))
    for at in range(0, samples, _BLOCK):
        size = min(_BLOCK, samples - at)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
        means[at : at + size] = counts @ values / n
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


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
