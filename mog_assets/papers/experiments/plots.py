"""Plots of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.build.plots import new_figure, plain, png

# Colours that colour-blind readers can distinguish (Okabe and Ito 2008), with one marker each for print.
_LOOKS = (("#0072B2", "o"), ("#E69F00", "s"), ("#009E73", "D"), ("#CC79A7", "^"), ("#56B4E9", "v"), ("#D55E00", "P"))


def curves(
    lines: Mapping[str, pd.DataFrame], xlabel: str, ylabel: str, title: str, ticks: Sequence[int], log: bool = False
) -> bytes:
    """Return line plot of values over a number, with intervals if there are any.

    Args:
        lines: Tables with columns x and value, and low and high if there is an interval, by name.
        xlabel: Label of the x axis.
        ylabel: Label of the y axis.
        title: Title of the plot.
        ticks: Ticks of the x axis.
        log: Whether the x axis is logarithmic.
    """
    figure = new_figure(6.5, 3.4)
    axes = figure.subplots()
    for number, (name, line) in enumerate(lines.items()):
        colour, marker = _LOOKS[number % len(_LOOKS)]
        x = line["x"].to_numpy(float)
        axes.plot(x, line["value"].to_numpy(float), color=colour, marker=marker, markersize=4, label=plain(name))
        if "low" in line:
            axes.fill_between(
                x, line["low"].to_numpy(float), line["high"].to_numpy(float), color=colour, alpha=0.12, linewidth=0
            )
    if log:
        axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel=xlabel, ylabel=ylabel, title=plain(title))
    axes.grid(alpha=0.3)
    if lines:
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)


def turned_right_and_wrong(rows: Sequence[Mapping[str, Any]], question_set: str) -> bytes:
    """Return bar plot of the questions that answering methods turn right (to the right) and wrong (to the left).

    Args:
        rows: With way, improved, degraded and n.
        question_set: Name of the question set.
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
