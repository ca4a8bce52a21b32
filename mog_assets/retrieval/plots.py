"""Pictures of retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mog_assets.corpus.plots import new_figure, png


def recall_by_parameters(
    grid: Mapping[int, np.ndarray], k1: Sequence[float], b: Sequence[float], default: Mapping[int, float]
) -> bytes:
    """Mean evidence recall over b, a line for each k1, side by side for every level.

    Args:
        grid: By level, shape (k1, b).
        k1: Values of k1.
        b: Values of b.
        default: By level, the recall by the parameters of the settings: a dotted line.
    """
    from matplotlib import colormaps

    figure = new_figure(1.6 + 1.7 * len(grid), 3)
    every = figure.subplots(1, len(grid), sharey=True, squeeze=False)[0]
    colours = colormaps["viridis"](np.linspace(0, 0.95, len(k1)))
    for axes, (level, values) in zip(every, grid.items(), strict=True):
        for row, colour, value in zip(values, colours, k1, strict=True):
            axes.plot(b, row, color=colour, label=f"{value:g}")
        axes.axhline(default[level], color="#555555", linestyle=":", label="settings")
        axes.set(xlabel="b", title=f"level {level}")
    every[0].set_ylabel("ER, questions fitted on")
    every[-1].legend(title="k1", frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)
