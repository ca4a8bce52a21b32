"""The report: one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import pandas as pd

from mog_assets.evaluate.leaderboard import differences_shown
from mog_assets.evaluate.measures import LEADS, boards, leading_measure, lower_is_better
from mog_assets.evaluate.scores import gap_closed, on_documents, p_text
from mog_assets.index.vector_stores import VECTOR_STORES
from mog_assets.plugins.report.charts import (
    EVALUATIONS,
    Report,
    answer_points,
    answer_tables,
    counts,
    curves,
    ends,
    groups,
    history_lines,
    number,
    shares,
    text,
)
from mog_assets.plugins.report.history import ALPHA
from mog_assets.plugins.report.shares import FEWEST
from mog_assets.questions.sources import board_suffix
from mog_assets.search.methods import LIMITS, controls, unplaced

TEMPLATE = "report.html.j2"
_PACKAGES = (
    "mog-assets",
    "dagster",
    "torch",
    "transformers",
    "bm25s",
    "bertopic",
    "ir-measures",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
)


def render(report: Report) -> str:
    """Return the page.

    Returns:
        HTML with styles, script and data inline. All texts are escaped, the script inserts text only as text, and the
        page's content security policy allows no other script and no requests.
    """
    import jinja2
    import yaml

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # `tojson` escapes <, > and &; NaN is not valid JSON.
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "separators": (",", ":"),
        "allow_nan": False,
    }
    environment.filters["csp"] = _csp
    environment.filters["code"] = lambda text: jinja2.utils.markupsafe.Markup(
        re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))
    )
    environment.filters["yaml"] = lambda values: yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    source = files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    tables = _boards(report)
    data = {
        "curves": [curves(report, board) for board in tables if board["key"].evidence == "spans"],
        "answers": answer_points(report.answers),
        "history": history_lines(report),
    }
    return environment.from_string(source).render(
        boards=tables,
        detailed={"effect", "detectable"} <= set(report.scores.columns),
        groups=[groups(report, board) for board in tables if board["key"] in report.groups],
        shares=shares(report.shares),
        known_items=[_known_item(row) for row in report.known_items],
        answers=answer_tables(report),
        advice=report.advice,
        bars=list(report.bars),
        notes=list(report.notes),
        facts=list(report.facts),
        configuration=dict(report.configuration),
        limits=list(LIMITS),
        fewest=FEWEST,
        alpha=ALPHA,
        evaluations=EVALUATIONS,
        data=data,
    )


def _known_item(row: Mapping[str, Any]) -> list[str]:
    """Return cells of a row of known items."""
    shares = [f"{row[name]:.2f}" for name in ("first", "in 4,000 characters")]
    return [row["asked"], row["ranking"], *shares, "" if row["p"] is None else p_text(row["p"])]


def environment() -> list[tuple[str, str]]:
    """Return versions of the software, and the machine: name and value."""
    rows = [("python", platform.python_version())]
    for name in (*_PACKAGES, *(name for store in VECTOR_STORES.values() for name in store.packages)):
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "not installed"))
    return [*rows, ("platform", platform.platform()), ("processor cores", str(os.cpu_count()))]


def _csp(script: str) -> str:
    """Return the content security policy source that allows this script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode('ascii')}"


def _boards(report: Report) -> list[dict[str, Any]]:
    """Return a table per question set and split, with methods sorted by the leading measure."""
    entries = []
    for key, part in boards(report.scores, report.origins):
        present = list(dict.fromkeys(part["measure"]))
        # The most important measures come first.
        measures = [*(name for name in report.headline if name in present)]
        measures += [name for name in present if name not in measures]
        shown = set(report.headline) & set(present) or set(measures)
        rows = [_row(rows_of_method, measures) for _, rows_of_method in part.groupby("method", sort=False)]
        rows.sort(key=lambda row: -row["order"])
        places = iter(range(1, len(rows) + 1))
        leads = part[part["measure"] == LEADS[key.evidence]].set_index("method")
        for row in rows:
            row["closed"] = gap_closed(leads, row["method"])
            row["place"] = "" if row["unplaced"] else next(places)
        entries.append(
            {
                "key": key,
                "name": f"{key.name}{board_suffix(key.question_set, report.origins)}",
                "shows": differences_shown(part),
                "leading": LEADS[key.evidence],
                "counts": on_documents(*counts(part).values()),
                "measures": [
                    {"name": name, "shown": name in shown, "less": lower_is_better(name)} for name in measures
                ],
                "rows": rows,
                "retrievers": list(dict.fromkeys(row["retriever"] for row in rows if row["retriever"])),
                "kinds": list(dict.fromkeys(row["kind"] for row in rows if row["kind"])),
            }
        )
    return entries


def _row(rows: pd.DataFrame, measures: Sequence[str]) -> dict[str, Any]:
    by_measure = rows.set_index("measure")
    values = by_measure["value"]
    kind, _, limit = str(rows["kind"].iloc[0]).partition("+")
    cells = []
    for name in measures:
        row = by_measure.loc[name]
        compared = row["baseline"] and row["baseline"] != row["method"]
        cells.append(
            {
                "value": number(row["value"]),
                "text": text(row["value"], name),
                "interval": ends(row, name),
                "baseline": row["baseline"],
                "difference": _difference(row, rows, name) if compared else "",
                "p": p_text(row["p_vs_best_fixed"]),
                "effect": _effect(row, name),
            }
        )
    return {
        "method": rows["method"].iloc[0],
        "retriever": rows["retriever"].iloc[0],
        "kind": kind,
        "limit": limit or "none",
        "unplaced": kind in unplaced(),
        "badge": "control" if kind in controls() else "sees gold evidence",
        "cells": cells,
        "coverage": float(rows["coverage"].iloc[0]),
        "order": float(values[leading_measure(values.index)]),
    }


def _difference(row: pd.Series, rows: pd.DataFrame, measure: str) -> str:
    if "difference" not in rows.columns:
        return ""
    text = _signed(row["difference"], measure)
    if text and "difference_low" in rows.columns and not pd.isna(row["difference_low"]):
        text += f" [{_signed(row['difference_low'], measure)}, {_signed(row['difference_high'], measure)}]"
    return text


def _effect(row: pd.Series, measure: str) -> str:
    parts = []
    if "effect" in row.index and not pd.isna(row["effect"]):
        parts.append(f"d {row['effect']:+.2f}")
    if "detectable" in row.index and not pd.isna(row["detectable"]):
        parts.append(f"detectable {text(row['detectable'], measure)}")
    return ", ".join(parts)


def _signed(value: float, measure: str) -> str:
    if pd.isna(value):
        return ""
    return f"{value:+,.0f}" if lower_is_better(measure) else f"{value:+.3f}"
