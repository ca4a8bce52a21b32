"""Plots of the router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mog_assets.build.plots import new_figure, plain, png


def loss_curve(curve: Sequence[Mapping[str, float]], best_epoch: int) -> bytes:
    """Plot of the loss by epoch.

    Args:
        curve: Dicts with epoch, train_loss and validation_loss.
        best_epoch: The epoch whose weights were kept.
    """
    figure = new_figure(5, 3)
    axes = figure.subplots()
    epochs = [point["epoch"] for point in curve]
    marker = "o" if len(curve) < 3 else ""
    for key, label, colour in (("train_loss", "training", "#0072B2"), ("validation_loss", "validation", "#E69F00")):
        axes.plot(epochs, [point[key] for point in curve], label=label, color=colour, marker=marker)
    axes.axvline(best_epoch, color="#555555", linestyle=":", label=f"kept: epoch {best_epoch}")
    axes.set(xlabel="epoch", ylabel="loss", title="Router training")
    axes.legend(frameon=False)
    return png(figure)


def weights_by_kind(kinds: Sequence[str], weights: np.ndarray) -> bytes:
    """Plot of the mean weight of each level for each kind of question.

    Args:
        kinds: Names of the rows.
        weights: float array of shape (kinds, levels).
    """
    weights = np.asarray(weights, float).reshape(len(kinds), -1)
    levels = weights.shape[1]
    figure = new_figure(2.4 + 0.8 * levels, 1.4 + 0.35 * len(kinds))
    axes = figure.subplots()
    finite = weights[np.isfinite(weights)]
    top = max(float(finite.max(initial=0)), 1e-9)
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    for (row, column), weight in np.ndenumerate(weights):
        colour = "white" if weight > 0.6 * top else "black"
        axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color=colour, fontsize=9)
    axes.set_xticks(range(levels), [str(level) for level in range(1, levels + 1)])
    axes.set_yticks(range(len(kinds)), [plain(kind) or "(none)" for kind in kinds])
    axes.set(xlabel="level", title="Mean weight by kind of question")
    return png(figure)
