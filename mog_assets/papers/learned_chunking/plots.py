"""Plots of training the chunker, as PNG small enough for metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mog_assets.build.plots import new_figure, png


def chunker_curves(curve: Sequence[Mapping[str, float]], best_epoch: int) -> bytes:
    """Return loss and tokens to answer of the learned chunker by epoch, as PNG.

    Args:
        curve: Dicts with epoch, train_loss, train_tokens and validation_tokens.
        best_epoch: The epoch whose weights are used.
    """
    figure = new_figure(7, 2.8)
    loss, tokens = figure.subplots(1, 2)
    epochs = [row["epoch"] for row in curve]
    loss.plot(epochs, [row["train_loss"] for row in curve], color="#0072B2", marker="o", label="training")
    for name, label, colour in (("train", "training", "#0072B2"), ("validation", "held-out documents", "#E69F00")):
        tokens.plot(epochs, [row[f"{name}_tokens"] for row in curve], label=label, color=colour, marker="o")
    for axes, what in ((loss, "loss"), (tokens, "tokens to answer")):
        axes.axvline(best_epoch, color="#555555", linestyle=":", label=f"kept: epoch {best_epoch}")
        axes.set(xlabel="epoch", ylabel=what)
        axes.legend(frameon=False, fontsize="small")
    return png(figure)
