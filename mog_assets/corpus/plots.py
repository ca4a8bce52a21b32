"""Pictures of a corpus, and how every picture is made."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BYTES = 60_000


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """An empty figure, in inches."""
    # The object, not pyplot: pyplot keeps every figure alive and asks for a display.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def png(figure: Figure) -> bytes:
    """The figure at the finest resolution that stays below `MAX_BYTES`."""
    from PIL import Image

    data = b""
    for dpi in (110, 90, 72, 56):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
        # A palette: text and lines need few colours, and a byte a pixel instead of four.
        small = io.BytesIO()
        Image.open(buffer).convert("RGB").quantize(64).save(small, format="png", optimize=True)
        data = small.getvalue()
        if len(data) < MAX_BYTES:
            break
    return data


def plain(text: str) -> str:
    """Text that matplotlib does not read as a formula."""
    return str(text).replace("$", r"\$")


def length_histogram(lengths: np.ndarray, level: int) -> bytes:
    """Histogram of chunk lengths in characters, as PNG."""
    # One for every level of every corpus: placed by hand, it is drawn once, not a second time to find its margins.
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
        best_epoch: The epoch whose weights were kept.
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
