"""Intervals of shares near 0 or 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import betaincinv

from mog_assets.evaluate.significance import by_document, standard_error


def share_interval(
    outcomes: np.ndarray, documents: Sequence[Any] | np.ndarray, level: float = 0.95
) -> tuple[float, float]:
    """Return interval of a share that may be near 0 or 1, for which resamples may be all equal.

    Clopper and Pearson's exact interval for the effective number of independent questions: n divided by the design
    effect of documents; `Totals.effective` if all questions have the same result.

    Args:
        outcomes: Results of n questions, bool or 0 and 1, shape (n,).
        documents: The document of each question.
        level: Confidence level of the interval.

    Returns:
        Lower and upper end; NaN without questions.

    References:
        Korn and Graubard 1998, Confidence Intervals for Proportions With Small Expected Number of Positive Counts.
    """
    totals = by_document(np.asarray(outcomes, np.float64), documents)
    if not totals.questions:
        return np.nan, np.nan
    share, error, n = float(totals.mean[0]), float(standard_error(totals)[0]), totals.questions
    worth = share * (1 - share) / error**2 if error > 0 else totals.effective
    worth = min(worth, n)
    tail, successes = (1 - level) / 2, share * worth
    low = float(betaincinv(successes, worth - successes + 1, tail)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, worth - successes, 1 - tail)) if successes < worth else 1.0
    return low, high
