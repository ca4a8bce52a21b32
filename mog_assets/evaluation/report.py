"""The report: one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import pandas as pd

from mog_assets.evaluation.scores import p_text

TEMPLATE = "report.html.j2"


def render(scores: pd.DataFrame, plots: Mapping[str, bytes], notes: Sequence[str]) -> str:
    """The page.

    Args:
        scores: As `scores.score` gives it.
        plots: PNG pictures by the caption they get.
        notes: Sentences that stand above the tables.

    Returns:
        HTML with styles, script and pictures inline; every name in it is escaped.
    """
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    source = files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    pictures = [
        {"caption": caption, "uri": f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"}
        for caption, data in plots.items()
    ]
    return environment.from_string(source).render(boards=_boards(scores), pictures=pictures, notes=list(notes))


def _boards(scores: pd.DataFrame) -> list[dict[str, Any]]:
    """A table per question set and split, methods by ER descending."""
    boards = []
    for (question_set, split), part in scores.groupby(["question_set", "split"], sort=False):
        measures = list(dict.fromkeys(part["measure"]))
        rows = []
        for method, own in part.groupby("method", sort=False):
            cells = [
                {
                    "value": row.value,
                    "text": f"{row.value:.3f}",
                    "interval": f"[{row.low:.3f}, {row.high:.3f}]",
                    "p": p_text(row.p_vs_best_fixed),
                    "baseline": row.baseline,
                }
                for row in own.set_index("measure").loc[measures].itertuples()
            ]
            leading = own[own["measure"] == "ER"]["value"]
            order = float(leading.iloc[0]) if len(leading) else 0.0
            rows.append({"method": method, "cells": cells, "coverage": float(own["coverage"].iloc[0]), "order": order})
        rows.sort(key=lambda row: -row["order"])
        n = int(part["n"].max())
        boards.append({"name": question_set, "split": split, "n": n, "measures": measures, "rows": rows})
    return boards
