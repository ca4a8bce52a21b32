"""Plots of training and of results, as PNG small enough for metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.build.plots import new_figure, plain, png
from mog_assets.evaluate.measures import CONTEXTS
from mog_assets.search.methods import METHODS, rankings

# The look of what has none of its own: methods of other packages, and controls.
_GREY = ("#999999", "o")


def er_against_cost(scores: pd.DataFrame, question_set: str) -> bytes:
    """Return evidence recall over context length, one panel for all retrievers together and one for each.

    The first panel shows the rankings and the best fixed level; each other one the best fixed level and all other kinds
    of its retriever that ran; bands are 95 % intervals. Panels share their axes, so that retrievers can be compared
    without twelve lines in one plot.

    Args:
        scores: As `scores.score` gives it.
        question_set: The one to show.
    """
    here = scores[scores["question_set"] == question_set]
    retrievers = list(dict.fromkeys(name for name in here["retriever"] if name))
    by_retriever = {name: here[here["retriever"] == name] for name in retrievers}
    if (ranked := here["kind"].isin(rankings())).any():
        by_retriever = {"all retrievers": here[ranked | (here["kind"] == "fixed")], **by_retriever}
    figure = new_figure(1 + 3.1 * max(len(by_retriever), 1), 4.4)
    panels = figure.subplots(1, max(len(by_retriever), 1), sharey=True, squeeze=False)[0]
    for axes, (retriever, part) in zip(panels, by_retriever.items(), strict=False):
        for kind, (colour, marker) in ((name, kind.look) for name, kind in METHODS.items() if kind.look):
            of_kind = part[part["kind"] == kind]
            means = of_kind[of_kind["measure"] == "ER"].set_index("method")["value"]
            if means.empty:
                continue
            best = str(means.idxmax())
            rows = of_kind[of_kind["method"] == best].drop_duplicates("measure").set_index("measure")
            line = rows.loc[[f"ER@{c}" for c in CONTEXTS]]
            numbered = METHODS[kind].numbers is not None
            text = f"best {'fixed level' if kind == 'fixed' else kind}: {plain(best)}" if numbered else kind
            low, high = line["low"].to_numpy(float), line["high"].to_numpy(float)
            axes.plot(CONTEXTS, line["value"].to_numpy(float), color=colour, marker=marker, markersize=4, label=text)
            axes.fill_between(CONTEXTS, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(CONTEXTS, [f"{c:,}" for c in CONTEXTS])
        axes.minorticks_off()
        axes.set(title=plain(retriever), xlabel="characters of context")
        axes.grid(alpha=0.3)
        # Below the panel, because lines may be anywhere inside it.
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    panels[0].set_ylabel("evidence recall")
    figure.suptitle(f"Evidence recall at equal context cost: {plain(question_set)}")
    return png(figure)


def look(kind: str) -> tuple[str, str]:
    """Return colour and marker of a kind of method."""
    return (METHODS[kind].look if kind in METHODS else None) or _GREY


def stacked(
    rows: Sequence[tuple[str, np.ndarray]], names: Sequence[str], colours: Sequence[Any], xlabel: str, title: str
) -> bytes:
    """Return shares that add up to 1 as bars: name and shares of each row; name and colour of each share."""
    figure = new_figure(6.5, 1.3 + max(0.3 * max(len(rows), 1), 0.16 * len(names)))
    axes = figure.subplots()
    widths = np.array([sizes for _, sizes in rows]).reshape(len(rows), len(names))
    at = np.arange(len(rows))[::-1]
    start = np.zeros(len(rows))
    for name, colour, share in zip(names, colours, widths.T, strict=True):
        axes.barh(at, share, left=start, color=colour, label=plain(name), edgecolor="white", linewidth=0.5)
        start += share
    axes.set_yticks(at, [plain(name) for name, _ in rows], fontsize=8)
    axes.set(xlabel=xlabel, xlim=(0, 1), title=plain(title))
    if rows:
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)


def accuracy_against_cost(scores: pd.DataFrame, question_set: str) -> bytes:
    """Return exact match of every answering method over the tokens it reads, with 95 % intervals.

    Args:
        scores: Result of `answers.score_answers`.
        question_set: The one to show.
    """
    here = scores[(scores["question_set"] == question_set) & (scores["measure"] == "exact match")]
    figure = new_figure(6.5, 3.6)
    axes = figure.subplots()
    colours = [kind.look[0] for kind in METHODS.values() if kind.look]
    for i, row in enumerate(here.to_dict("records")):
        # Rounding may put an end on the wrong side of the mean; lengths must not be below 0.
        spread = np.maximum([[row["value"] - row["low"]], [row["high"] - row["value"]]], 0)
        axes.errorbar(
            row["tokens_in"], row["value"], spread, fmt="o", color=colours[i % len(colours)], label=plain(row["method"])
        )
    axes.set_xscale("symlog", linthresh=100)
    axes.set(xlabel="mean tokens read per question (reader's unit)", ylabel="exact match", title=plain(question_set))
    axes.grid(alpha=0.3)
    if len(here):
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)
