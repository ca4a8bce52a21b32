"""A calibration fitted to answers, and from which probability they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mog_assets.answer.reader.calibration import BY_SCORE, FEATURES, Calibration
from mog_assets.build.plots import new_figure, png

# Share of right answers among those that are shown, at least.
SHOWN_RIGHT = 0.8
BINS = 10


def fitted(values: np.ndarray, right: np.ndarray, certain: float = 2.0) -> Calibration:
    """Fit to features of the best spans, shape (n, features), and whether each is right, bool of shape (n,).

    If all are alike, they are told apart by their score only.
    """
    from sklearn.linear_model import LogisticRegression

    if right.all() or not right.any():
        return Calibration(BY_SCORE.weights, BY_SCORE.intercept, certain)
    spread = values.std(axis=0)
    spread[spread == 0] = 1
    model = LogisticRegression().fit(values / spread, right)
    weights = (model.coef_[0] / spread).tolist()
    return Calibration(dict(zip(FEATURES, weights, strict=True)), float(model.intercept_[0]), certain)


def by_halves(values: np.ndarray, right: np.ndarray, documents: Sequence[str]) -> tuple[Calibration, np.ndarray | None]:
    """Return a calibration on all answers, and probabilities from calibrations that did not see the answers' documents.

    The second decide from which probability answers are shown. They are None, and nothing is, if there is one document.

    Args:
        values: Features, shape (n, features).
        right: Whether each answer is right, bool of shape (n,).
        documents: What each question is about.
    """
    names = sorted(set(documents))
    if len(names) < 2:
        return fitted(values, right), None
    members = np.isin(documents, names[::2])
    chances = np.empty(len(right))
    for half in (members, ~members):
        chances[half] = fitted(values[~half], right[~half]).probabilities(values[half])
    return fitted(values, right, certain_from(chances, right)), chances


def certain_from(probabilities: np.ndarray, right: np.ndarray) -> float:
    """Return lowest tenth from .5 on from which the share `SHOWN_RIGHT` of the answers is right; 2 if there is none.

    Args:
        probabilities: Of answers that were not fitted, shape (n,).
        right: Whether each is right, bool of shape (n,).
    """
    for least in (0.5, 0.6, 0.7, 0.8, 0.9):
        shown = right[probabilities >= least]
        if len(shown) and shown.mean() >= SHOWN_RIGHT:
            return least
    return 2.0


def curve(probabilities: np.ndarray, right: np.ndarray) -> tuple[list[dict[str, Any]], float]:
    """Return a row per tenth of the probabilities, and the expected calibration error (Guo et al. 2017, section 2)."""
    rows, error = [], 0.0
    places = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    for place in np.unique(places).tolist():
        rows_of = places == place
        predicted, true = float(probabilities[rows_of].mean()), float(right[rows_of].mean())
        error += abs(predicted - true) * float(rows_of.mean())
        rows.append({"n": int(rows_of.sum()), "probability": round(predicted, 3), "share right": round(true, 3)})
    return rows, error


def plot(rows: Sequence[dict[str, Any]]) -> bytes:
    """Plot of what `curve` returns."""
    figure = new_figure(4, 3.4)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.plot([r["probability"] for r in rows], [r["share right"] for r in rows], marker="o", color="#0072B2")
    axes.set(xlabel="probability of being right", ylabel="share that is right", title="Calibration")
    return png(figure)
