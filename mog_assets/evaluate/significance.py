"""Intervals and tests that treat documents, not questions, as independent.

Results of questions about one document are correlated: a method that finds a document's passages answers most of them.
So documents are resampled, and random signs are drawn per document. `by_document` sums the measures of questions over
their documents, and everything else here starts from these sums. The estimand is still the mean over questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Not scipy.stats: importing it takes half a second of a run that does nothing.
from scipy.special import ndtr, stdtrit

# Resamples per matrix product: bounds memory to some 150 MB for 14,000 documents.
BLOCK = 500
RESAMPLES = 2000
SIGNS = 10000
# Means that differ by rounding only count as equal, so that ties do not depend on the order of additions.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Totals:
    """Measures of questions, summed over the documents that the questions are about.

    Attributes:
        sums: float64 array of shape (documents, m).
        sizes: Number of questions of each document, float64 array of shape (documents,).
        scale: Sum of the absolute values of all questions, shape (m,), by which rounding errors are recognised.
    """

    sums: np.ndarray
    sizes: np.ndarray
    scale: np.ndarray

    @property
    def questions(self) -> int:
        """Number of questions."""
        return int(self.sizes.sum())

    @property
    def effective(self) -> float:
        """Effective number of documents, as if of equal size: n² / Σ n_g², from 1 to their number (Kish 1965)."""
        return float(self.sizes.sum() ** 2 / np.square(self.sizes).sum()) if len(self.sizes) else 0.0

    @property
    def mean(self) -> np.ndarray:
        """Mean over questions of each column, shape (m,); NaN without questions."""
        if not len(self.sizes):
            return np.full(self.sums.shape[1], np.nan)
        return np.asarray(self.sums.sum(axis=0) / self.sizes.sum())

    def columns(self, chosen: np.ndarray) -> Totals:
        """Return some columns, in order."""
        return Totals(self.sums[:, chosen], self.sizes, self.scale[chosen])

    def minus(self, other: Totals) -> Totals:
        """Return paired differences from other values of the same questions."""
        return Totals(self.sums - other.sums, self.sizes, self.scale + other.scale)


def by_document(values: np.ndarray, documents: Sequence[Any] | np.ndarray) -> Totals:
    """Sum the measures of questions over their documents.

    Args:
        values: float array of shape (n,) or (n, m): questions by columns, without NaN.
        documents: The document of each of the n questions, such as `Question.document`: equal values are one document.

    Raises:
        ValueError: the numbers of documents and questions differ.
    """
    values = np.asarray(values, np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if len(documents) != len(values):
        raise ValueError(f"documents: expected one for each of {len(values)} questions, got {len(documents)}")
    names, member = np.unique(np.asarray(documents), return_inverse=True)
    sizes = np.bincount(member, minlength=len(names)).astype(np.float64)
    order = np.argsort(member, kind="stable")
    starts = np.cumsum(sizes).astype(np.int64) - sizes.astype(np.int64)
    sums = np.add.reduceat(values[order], starts, axis=0) if len(names) else np.zeros((0, values.shape[1]))
    return Totals(sums, sizes, np.abs(values).sum(axis=0))


def bootstrap_interval(
    totals: Totals, samples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Return interval of each column's mean over questions, by resampling documents; see `ends`.

    Args:
        totals: Result of `by_document` for n questions.
        samples: Number of resamples.
        seed: Seed of the resamples.
        level: Confidence level of the interval.

    Returns:
        Lower and upper ends, each of shape (m,); NaN with fewer than two documents.
    """
    if not totals.questions:
        return np.full(totals.sums.shape[1], np.nan), np.full(totals.sums.shape[1], np.nan)
    return ends(resampled_means(totals, samples, seed), totals, level)


def resampled_means(totals: Totals, samples: int, seed: int) -> np.ndarray:
    """Return means over questions of each column in resamples of the documents; all columns see the same resamples.

    A mean is a ratio of sums, because resamples differ in their number of questions.

    Args:
        totals: Result of `by_document` for at least one question.
        samples: Number of resamples.
        seed: Seed of the resamples.

    Returns:
        float64 array of shape (samples, m).

    References:
        Davison and Hinkley 1997, Bootstrap Methods and their Application, section 3.8; Field and Welsh 2007.
    """
    documents, m = totals.sums.shape
    rng = np.random.default_rng(seed)
    means = np.empty((samples, m))
    for at in range(0, samples, BLOCK):
        size = min(BLOCK, samples - at)
        counts = rng.multinomial(documents, np.full(documents, 1 / documents), size=size).astype(np.float64)
        means[at : at + size] = counts @ totals.sums / (counts @ totals.sizes)[:, None]
    return means


def ends(samples: np.ndarray, totals: Totals, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return ends of the interval from resampled figures: their percentiles, widened if there are few documents.

    The percentiles are those at which a normal distribution has the quantiles of Student's t: with E documents of equal
    size, Φ(−√(E / (E − 1)) t_{E−1}) instead of 2.5 %. Documents of unequal size count as `Totals.effective`. Unlike
    those of a t interval, the ends stay within the values that the figure can take.

    Coverage of 95 % intervals of evidence recall, hits and differences with a correlation of .3 within documents
    (`benchmarks/significance.py --coverage`):

    - 19 documents of 2 to 10 questions: 94 to 95 % (plain percentiles 91 to 93, BCa 92 to 93, questions resampled 77
      to 82).
    - The sample project's 19 of 1 to 17: 95 to 97 % (91 to 93, 89 to 92, 72 to 78).
    - 8 of 1 to 9: 95 % (87 to 90, 87 to 90, 78 to 84). 5 of 2 to 10: 91 to 92 % (80 to 85, 81 to 85, 75 to 80).
    - 500 of 1 to 21: 94 to 97 % (the same, 92 to 97, 80 to 88).

    With 2 to 4 documents the ends are about the smallest and largest document mean: coverage is about
    1 − 2^(1 − documents).

    Args:
        samples: Figures in resamples of the documents, shape (samples,) or (samples, m).
        totals: The documents.
        level: Confidence level of the interval.

    Returns:
        Lower and upper ends, each a number or of shape (m,); NaN for one document.

    References:
        Hesterberg 2015, What Teachers Should Know About the Bootstrap, section 4.3 (expanded percentile interval);
        Carter, Schnepel and Steigerwald 2017 (effective number of clusters).
    """
    if len(totals.sizes) < 2:
        return np.full(samples.shape[1:], np.nan), np.full(samples.shape[1:], np.nan)
    # In the extreme, t has no quantile: the ends are the smallest and the largest figure.
    degrees = max(totals.effective - 1, 1e-3)
    width = np.nan_to_num(stdtrit(degrees, (1 + level) / 2), nan=np.inf) * np.sqrt(1 + 1 / degrees)
    tail = float(ndtr(-width))
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    return low, high


def permutation_p(differences: Totals, samples: int = SIGNS, seed: int = 0) -> np.ndarray:
    """Return two-sided p-value of each column's mean under random signs of whole documents (paired permutation test).

    Args:
        differences: Differences of paired values.
        samples: Number of random assignments of signs. If there are at most as many different ones, 2^(documents − 1),
            all are tried and p is exact.
        seed: Seed of the signs.

    Returns:
        Share of assignments with a mean at least as extreme as the observed one, of shape (m,): at least `least_p`; 1
        if every difference is 0. For drawn assignments (1 + extreme) / (1 + samples).

    References:
        Smucker, Allan and Carterette 2007; by clusters Cameron, Gelbach and Miller 2008; the added ones after Phipson
        and Smyth 2010.
    """
    sums = differences.sums
    documents, m = sums.shape
    if not documents:
        return np.ones(m)
    bar = np.abs(sums.sum(axis=0)) - TOLERANCE * differences.scale
    extreme = np.zeros(m, np.int64)
    exact = documents - 1 <= np.log2(samples)
    count = 2 ** (documents - 1) if exact else samples
    rng = np.random.default_rng(seed)
    for at in range(0, count, BLOCK):
        size = min(BLOCK, count - at)
        if exact:
            # The sign of the last document is fixed: flipping all signs changes no absolute sum.
            ones = np.arange(at, at + size)[:, None] >> np.arange(documents) & 1
        else:
            ones = rng.integers(0, 2, size=(size, documents), dtype=np.int8)
        extreme += (np.abs((1.0 - 2.0 * ones) @ sums) >= bar).sum(axis=0)
    return extreme / count if exact else (1 + extreme) / (1 + samples)


def least_p(documents: int, samples: int = SIGNS) -> float:
    """Return smallest possible p-value of `permutation_p`: 2^(1 − documents), or 1 / (1 + samples) if signs are drawn.

    With 5 documents no p-value is below .0625, whatever the differences.
    """
    return 2.0 ** (1 - documents) if documents - 1 <= np.log2(samples) else 1 / (1 + samples)


def holm(p: np.ndarray) -> np.ndarray:
    """Return p-values corrected for the number of tests.

    Args:
        p: float array of shape (m,); NaN means no test.

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


def effect_size(differences: Totals) -> np.ndarray:
    """Return mean of paired differences divided by their standard deviation between documents, for each column.

    With one question per document it is Cohen's d_z. With several, the deviation is that of document means: the effect
    size is the t statistic divided by √(`Totals.effective`).

    Args:
        differences: Differences of paired values.

    Returns:
        float array of shape (m,): 0 if the mean is 0; else NaN if documents do not differ, so that there is no spread,
        or if there are fewer than two.

    References:
        Cohen 1988, Statistical Power Analysis for the Behavioral Sciences, section 2.3.5; Hedges 2007, Effect Sizes in
        Cluster-Randomized Designs.
    """
    spread = standard_error(differences) * np.sqrt(differences.effective)
    effect = np.full(spread.shape, np.nan)
    np.divide(differences.mean, spread, out=effect, where=spread > 0)
    effect[np.abs(differences.sums.sum(axis=0)) <= TOLERANCE * differences.scale] = 0.0
    return effect


def detectable(differences: Totals, alpha: float | np.ndarray = 0.05, power: float = 0.8) -> np.ndarray:
    """Return the smallest mean difference that a two-sided paired test with as many documents can detect.

    For a null result it shows what can be ruled out: (t_{1−α/2} + t_power) standard errors, with
    `Totals.effective` − 1 degrees of freedom.

    Args:
        differences: Differences of paired values.
        alpha: Level of the test, in (0, 1); one value, or one per column.
        power: Probability that such a difference is detected, in (0, 1).

    Returns:
        Absolute mean difference of shape (m,), at least 0; NaN if documents do not differ, so that their spread is
        unknown, or if there are so few that no p-value is below alpha (`least_p`).

    References:
        Bloom 1995, Minimum Detectable Effects; Cohen 1988, chapter 2.
    """
    error, alpha = standard_error(differences), np.asarray(alpha)
    degrees = max(differences.effective - 1, 1e-3)
    effect = (stdtrit(degrees, 1 - alpha / 2) + stdtrit(degrees, power)) * error
    enough = least_p(len(differences.sizes)) <= alpha
    return np.where((error > 0) & enough & np.isfinite(effect), effect, np.nan)


def standard_error(totals: Totals) -> np.ndarray:
    """Return standard error of each column's mean; 0 if documents differ by rounding only, NaN for fewer than two.

    References: Liang and Zeger 1986, of the mean; the correction for few documents as in `ends`.
    """
    if len(totals.sizes) < 2:
        return np.full(totals.sums.shape[1], np.nan)
    residuals = totals.sums - totals.mean * totals.sizes[:, None]
    correction = 1 / (1 - 1 / totals.effective)
    error = np.sqrt(correction * np.square(residuals).sum(axis=0)) / totals.questions
    return np.where(error > TOLERANCE * totals.scale / totals.questions, error, 0.0)


def compare_cells(
    values: np.ndarray,
    baselines: np.ndarray,
    documents: Sequence[Any] | np.ndarray,
    seed: int,
    alpha: float = 0.05,
) -> dict[str, np.ndarray]:
    """Return means over questions, and their differences from a baseline on the same questions.

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
