"""Pictures of the experiments on answering, as PNG small enough for metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mog_assets.corpus.plots import new_figure, plain, png


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
