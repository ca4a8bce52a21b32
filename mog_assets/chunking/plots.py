"""Plots of chunks and of the training of a chunker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mog_assets.plots import new_figure, png


def length_histogram(lengths: np.ndarray, level: int) -> bytes:
    """Histogram of chunk lengths in characters, as PNG."""
    # One for every level of every corpus: with fixed margins it is drawn only once.
    figure = new_figure(5, 2.4, layout=None)
    axes = figure.add_axes((0.14, 0.21, 0.83, 0.67))
    axes.hist(lengths, bins=40, color="#4c72b0")
    axes.set_xlabel("characters")
    axes.set_ylabel("chunks")
    axes.set_title(f"Length of {len(lengths):,} chunks of level {level}")
    return png(figure)


def chunker_curves(curve: Sequence[Mapping[str, float]], best_epoch: int) -> bytes:
    """Loss and tokens to answer of the learned chunker by epoch, as PNG.

    Args:
        curve: Dicts with epoch, train_loss, train_tokens and validation_tokens.
        best_epoch: The epoch whose weights are used.
    """
    figure = new_figure(7, 2.8)
    loss, tokens = figure.subplots(1, 2)
    epochs = [told["epoch"] for told in curve]
    loss.plot(epochs, [told["train_loss"] for told in curve], color="#0072B2", marker="o", label="training")
    for name, label, colour in (("train", "training", "#0072B2"), ("validation", "held-out documents", "#E69F00")):
        tokens.plot(epochs, [told[f"{name}_tokens"] for told in curve], label=label, color=colour, marker="o")
    for axes, what in ((loss, "loss"), (tokens, "tokens to answer")):
        axes.axvline(best_epoch, color="#555555", linestyle=":", label=f"kept: epoch {best_epoch}")
        axes.set(xlabel="epoch", ylabel=what)
        axes.legend(frameon=False, fontsize="small")
    return png(figure)
