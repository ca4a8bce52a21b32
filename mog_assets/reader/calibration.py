"""From the score of a span to the probability that it is right.

References: Platt 1999; Kamath et al. 2020 (selective question answering), section 3, for the mix of questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mog_assets.plots import new_figure, png

# F1 from which an answer counts as right.
RIGHT = 0.5
BINS = 10


def fitted(scores: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of the logistic function that tells right answers by their score.

    Args:
        scores: Of the best spans, shape (n,).
        right: Whether each is right, bool of shape (n,); if all are alike, they are told apart by sign only.
    """
    from sklearn.linear_model import LogisticRegression

    if right.all() or not right.any():
        return 1.0, 0.0
    model = LogisticRegression().fit(scores[:, None], right)
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def probability(score: float, calibration: Sequence[float]) -> float:
    """Probability that a span is right, in [0, 1]."""
    slope, intercept = calibration
    return float(1 / (1 + np.exp(-np.clip(slope * score + intercept, -50, 50))))


def curve(probabilities: np.ndarray, right: np.ndarray) -> tuple[list[dict[str, Any]], float]:
    """A row per tenth of the probabilities, and the expected calibration error (Guo et al. 2017, section 2)."""
    rows, error = [], 0.0
    places = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    for place in np.unique(places).tolist():
        own = places == place
        said, true = float(probabilities[own].mean()), float(right[own].mean())
        error += abs(said - true) * float(own.mean())
        rows.append({"n": int(own.sum()), "probability": round(said, 3), "share right": round(true, 3)})
    return rows, error


def plot(rows: Sequence[dict[str, Any]]) -> bytes:
    """Plot of what `curve` returns."""
    figure = new_figure(4, 3.4)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.plot([r["probability"] for r in rows], [r["share right"] for r in rows], marker="o", color="#0072B2")
    axes.set(xlabel="probability of being right", ylabel="share that is right", title="Calibration")
    return png(figure)
