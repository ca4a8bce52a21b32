"""Plots of the report."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mog_assets.build.plots import new_figure, plain, png
from mog_assets.evaluate.measures import leading_measure
from mog_assets.evaluate.plots import stacked
from mog_assets.search.methods import is_unplaced

# Retrievers, in colours of methods.
_BM25, _VECTORS = "#D55E00", "#0072B2"


def shares(rows: pd.DataFrame) -> bytes:
    """Return how much each level and retriever counted, one bar per group of questions.

    Args:
        rows: Result of `parts.of_one`.
    """
    names = list(rows.columns[3:])
    levels = len(names) // 2
    # As bright as their levels are fine.
    tones = [0.2 + 0.8 * level / levels for level in range(1, levels + 1)]
    colours = [_mixed(colour, tone) for colour in (_BM25, _VECTORS) for tone in tones]
    bars = [(f"{group} ({n:,})", np.array(sizes)) for _, group, n, *sizes in rows.itertuples(index=False, name=None)]
    title = f"Which levels and retrievers counted: {rows.attrs['method']}"
    return stacked(bars, names, [*colours, "#999999"], "mean share of the weights", title)


def _mixed(colour: str, tone: float) -> tuple[float, ...]:
    """Return so much of a colour, the rest white."""
    return tuple(1 - tone + tone * int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def er_over_time(history: pd.DataFrame, question_set: str, best: int = 5) -> bytes:
    """Return the leading measure of the currently best methods by time of evaluation, with marks at significant drops.

    Args:
        history: Rows of one or more evaluations, from `history.rows`.
        question_set: The one to show.
        best: Number of methods.
    """
    here = history[history["question_set"] == question_set]
    measure = leading_measure(set(here["measure"]))
    here = here[here["measure"] == measure]
    last = here[here["time"] == here["time"].max()].sort_values("value", ascending=False, kind="stable")
    last = last[~last["method"].map(is_unplaced).astype(bool)]
    figure = new_figure(7, 3.6)
    axes = figure.subplots()
    for split, method in last[["split", "method"]].head(best).itertuples(index=False):
        line = here[(here["split"] == split) & (here["method"] == method)].sort_values("time")
        times, value = line["time"].to_numpy(), line["value"].to_numpy(float)
        (curve,) = axes.plot(times, value, marker="o", markersize=3, label=plain(f"{method} ({split})"))
        low, high = line["low"].to_numpy(float), line["high"].to_numpy(float)
        axes.fill_between(times, low, high, color=curve.get_color(), alpha=0.1, linewidth=0)
    fallen = here[here["dropped"] & here["method"].isin(last["method"].head(best))]
    if len(fallen):
        axes.scatter(
            fallen["time"].to_numpy(),
            fallen["value"].to_numpy(float),
            marker="v",
            s=70,
            color="black",
            zorder=3,
            label="significant drop",
        )
    axes.set(xlabel="time of evaluation (UTC)", ylabel=measure, title=plain(question_set))
    axes.tick_params(axis="x", labelrotation=20)
    axes.grid(alpha=0.3)
    if len(last):
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)
