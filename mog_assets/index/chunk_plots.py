"""Plots of chunks and of the training of a chunker."""

from __future__ import annotations

import numpy as np

from mog_assets.build.plots import new_figure, png


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
