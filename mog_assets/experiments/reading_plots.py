"""Pictures of the experiments on answering, as PNG small enough for metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.corpus.plots import new_figure, plain, png

# Colours that colour-blind readers tell apart (Okabe and Ito 2008), and a shape each for print.
_LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#56B4E9", "v"), ("#E69F00", "D"), ("#009E73", "^"), ("#CC79A7", "P"))


def curves(lines: Mapping[str, tuple[Sequence[float], pd.DataFrame]], across: str, measure: str, title: str) -> bytes:
    """Accuracy over something that is varied, with 95 % intervals.

    Args:
        lines: By label: what was varied, and rows with value, low and high for each.
        across: What the horizontal axis is.
        measure: What the vertical axis is.
        title: Of the picture.
    """
    figure = new_figure(6.5, 3.6)
    axes = figure.subplots()
    places = sorted({float(x) for xs, _ in lines.values() for x in xs})
    step = (places[-1] - places[0]) / 60
    for i, (label, (xs, rows)) in enumerate(lines.items()):
        colour, marker = _LOOKS[i % len(_LOOKS)]
        value, low, high = (rows[key].to_numpy(float) for key in ("value", "low", "high"))
        # Beside each other: bars of lines that lie on each other would hide each other.
        at = np.asarray(xs, float) + step * (i - (len(lines) - 1) / 2)
        spread = np.maximum([value - low, high - value], 0)
        axes.errorbar(at, value, spread, color=colour, marker=marker, markersize=4, capsize=2, label=plain(label))
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.set(xlabel=across, ylabel=measure, title=plain(title))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)


def flips(rows: Sequence[Mapping[str, Any]], question_set: str) -> bytes:
    """Questions that ways of answering turn right (to the right) and wrong (to the left).

    Args:
        rows: With way, improved, degraded and n.
        question_set: Whose they are.
    """
    figure = new_figure(6.5, 1.3 + 0.32 * len(rows))
    axes = figure.subplots()
    at = np.arange(len(rows))[::-1]
    right, wrong, n = (np.array([row[key] for row in rows], float) for key in ("improved", "degraded", "n"))
    axes.barh(at, right / n, color="#0072B2", label="improved")
    axes.barh(at, -wrong / n, color="#D55E00", label="degraded")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(at, [plain(row["way"]) for row in rows], fontsize=8)
    axes.locator_params(axis="x", nbins=7)
    axes.xaxis.set_major_formatter(lambda share, _: f"{abs(share):.3g}")
    axes.set(xlabel="share of questions, against cot", title=plain(question_set))
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)
