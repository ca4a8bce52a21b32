"""Plots of trained rankings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.build.plots import new_figure, png

# Features shown, the most used first.
_MOST = 20
_BLUE = "#0072B2"


def weights(experts: Sequence[str], weighed: np.ndarray) -> bytes:
    """Plot of the weights that questions give to experts.

    Args:
        experts: Their names.
        weighed: float array of shape (questions, experts).
    """
    figure = new_figure(5, 1 + 0.28 * len(experts))
    axes = figure.subplots()
    axes.boxplot(weighed[:, ::-1], orientation="horizontal", tick_labels=list(experts)[::-1], showfliers=False)
    axes.set(xlabel="weight", title="Weights of the experts over questions")
    return png(figure)


def importance(names: Sequence[str], gains: np.ndarray) -> bytes:
    """Plot of how much each feature reduced the loss of the trees.

    Args:
        names: Of the features.
        gains: float array of shape (features,).
    """
    order = np.argsort(-gains)[:_MOST][::-1]
    figure = new_figure(5.5, 1 + 0.24 * len(order))
    axes = figure.subplots()
    axes.barh([names[i] for i in order], gains[order] / max(float(gains.sum()), 1e-9), color=_BLUE)
    axes.set(xlabel="share of the gain", title="What the trees use")
    return png(figure)
