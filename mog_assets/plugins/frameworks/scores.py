"""Scores between 0 and 1 for clients that expect them."""

from __future__ import annotations

from collections.abc import Sequence


def shares(scores: Sequence[float]) -> list[float]:
    """Return each score as a share of the best one: the best has 1.0, and the order stays.

    Scores of the methods have no scale: they say which passage is better, not how good one is. So a share of 0.5 means
    half the score of the best passage for the same question. It does not mean that the best passage is good. If a
    score is negative, all are moved up until the lowest is 0.

    Args:
        scores: Best first.
    """
    if not scores:
        return []
    lowest = min(0.0, *scores)
    best = max(scores) - lowest
    return [1.0 if best <= 0 else (score - lowest) / best for score in scores]
