"""Pictures of training and of results, as PNG small enough for metadata."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mog_assets.corpus.plots import length_histogram
from mog_assets.evaluation.measures import CONTEXTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["er_against_cost", "leaderboard_bars", "length_histogram", "loss_curve", "weights_by_kind"]

MAX_BYTES = 60_000
# Colours that colour-blind readers tell apart (Okabe and Ito 2008), and a shape each for print.
_LOOKS = {
    "fixed": ("#0072B2", "o", "best single level"),
    "fused": ("#E69F00", "s", "best fused"),
    "mog": ("#009E73", "D", "mog"),
    "oracle": ("#555555", "^", "oracle"),
}


def _figure(width: float, height: float) -> Figure:
    # The object, not pyplot: pyplot keeps every figure alive and asks for a display.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _png(figure: Figure) -> bytes:
    """The figure at the finest resolution that stays below `MAX_BYTES`."""
    data = b""
    for dpi in (110, 90, 72, 56):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
        data = buffer.getvalue()
        if len(data) < MAX_BYTES:
            break
    return data


def loss_curve(curve: Sequence[Mapping[str, float]], best_epoch: int) -> bytes:
    """Loss by epoch.

    Args:
        curve: Dicts with epoch, train_loss and validation_loss.
        best_epoch: The epoch whose weights were kept.
    """
    figure = _figure(5, 3)
    axes = figure.subplots()
    epochs = [point["epoch"] for point in curve]
    marker = "o" if len(curve) < 3 else ""
    for key, label, colour in (("train_loss", "training", "#0072B2"), ("validation_loss", "validation", "#E69F00")):
        axes.plot(epochs, [point[key] for point in curve], label=label, color=colour, marker=marker)
    axes.axvline(best_epoch, color="#555555", linestyle=":", label=f"kept: epoch {best_epoch}")
    axes.set(xlabel="epoch", ylabel="loss", title="Router training")
    axes.legend(frameon=False)
    return _png(figure)


def weights_by_kind(kinds: Sequence[str], weights: np.ndarray) -> bytes:
    """Mean weight of each level for each kind of question.

    Args:
        kinds: Names of the rows.
        weights: float array of shape (kinds, levels).
    """
    weights = np.asarray(weights, float).reshape(len(kinds), -1)
    levels = weights.shape[1]
    figure = _figure(2.4 + 0.8 * levels, 1.4 + 0.35 * len(kinds))
    axes = figure.subplots()
    finite = weights[np.isfinite(weights)]
    top = max(float(finite.max(initial=0)), 1e-9)
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    for (row, column), weight in np.ndenumerate(weights):
        colour = "white" if weight > 0.6 * top else "black"
        axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color=colour, fontsize=9)
    axes.set_xticks(range(levels), [str(level) for level in range(1, levels + 1)])
    axes.set_yticks(range(len(kinds)), [_plain(kind) or "(none)" for kind in kinds])
    axes.set(xlabel="level", title="Mean weight by kind of question")
    return _png(figure)


def er_against_cost(scores: pd.DataFrame, question_set: str) -> bytes:
    """Evidence recall over context length, a panel per retriever.

    Each panel shows the best single level, the best fused method, mog and the oracle, as far as they ran; bands are 95 %
    intervals. Panels share their axes, so that retrievers compare without twelve lines in one picture.

    Args:
        scores: As `scores.score` gives it.
    """
    here = scores[scores["question_set"] == question_set]
    retrievers = list(dict.fromkeys(name for name in here["retriever"] if name))
    figure = _figure(1 + 3.1 * max(len(retrievers), 1), 3.6)
    panels = figure.subplots(1, max(len(retrievers), 1), sharey=True, squeeze=False)[0]
    for axes, retriever in zip(panels, retrievers, strict=False):
        for kind, (colour, marker, label) in _LOOKS.items():
            found = here[(here["retriever"] == retriever) & (here["kind"] == kind)]
            means = found[found["measure"] == "ER"].set_index("method")["value"]
            if means.empty:
                continue
            best = str(means.idxmax())
            rows = found[found["method"] == best].drop_duplicates("measure").set_index("measure")
            line = rows.loc[[f"ER@{c}" for c in CONTEXTS]]
            text = f"{label}: {_plain(best)}" if kind in ("fixed", "fused") else label
            low, high = line["low"].to_numpy(float), line["high"].to_numpy(float)
            axes.plot(CONTEXTS, line["value"].to_numpy(float), color=colour, marker=marker, markersize=4, label=text)
            axes.fill_between(CONTEXTS, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(CONTEXTS, [f"{c:,}" for c in CONTEXTS])
        axes.minorticks_off()
        axes.set(title=_plain(retriever), xlabel="characters of context")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("evidence recall")
    figure.suptitle(f"Evidence recall at equal context cost: {_plain(question_set)}")
    return _png(figure)


def leaderboard_bars(scores: pd.DataFrame, question_set: str) -> bytes:
    """ER of every method with its 95 % interval, best on top.

    Args:
        scores: As `scores.score` gives it.
    """
    here: Any = scores[(scores["question_set"] == question_set) & (scores["measure"] == "ER")]
    here = here.drop_duplicates("method").sort_values("value", kind="stable")
    figure = _figure(6.5, 1.2 + 0.22 * max(len(here), 3))
    axes = figure.subplots()
    value, low, high = (here[key].to_numpy(float) for key in ("value", "low", "high"))
    at = np.arange(len(here))
    for kind in dict.fromkeys(here["kind"]):
        rows = (here["kind"] == kind).to_numpy()
        colour, _, _ = _LOOKS.get(kind, ("#999999", "", ""))
        axes.barh(at[rows], value[rows], color=colour, alpha=0.85, label=_plain(kind) or "other")
    # A percentile interval of a skewed sample may leave its mean outside; error bars cannot have negative length.
    axes.errorbar(
        value, at, xerr=np.maximum([value - low, high - value], 0), fmt="none", ecolor="black", elinewidth=1, capsize=2
    )
    axes.set_yticks(at, [_plain(name) for name in here["method"]], fontsize=8)
    axes.set_ylim(-0.7, len(here) - 0.3)
    axes.set(xlabel="ER (mean evidence recall, 95 % interval)", xlim=(0, None), title=_plain(question_set))
    if len(here):
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    return _png(figure)


def _plain(text: str) -> str:
    """Text that matplotlib does not read as a formula."""
    return str(text).replace("$", r"\$")
