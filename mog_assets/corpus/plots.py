"""Pictures of a corpus."""

from __future__ import annotations

import io

import numpy as np


def length_histogram(lengths: np.ndarray, level: int) -> bytes:
    """Histogram of chunk lengths in characters, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 2.4), layout="constrained")
    axes = figure.subplots()
    axes.hist(lengths, bins=40, color="#4c72b0")
    axes.set_xlabel("characters")
    axes.set_ylabel("chunks")
    axes.set_title(f"Length of {len(lengths):,} chunks of level {level}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return buffer.getvalue()
