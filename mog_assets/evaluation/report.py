"""The report: one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.evaluation.agreement import points, sentences
from mog_assets.evaluation.answers import MEASURES as ANSWER_MEASURES
from mog_assets.evaluation.answers import answer_board
from mog_assets.evaluation.browse import FIRST_PASSAGES, GOLD_CHARS, MOST_PASSAGES, OTHER_CHARS
from mog_assets.evaluation.history import ALPHA
from mog_assets.evaluation.leaderboard import differences_shown
from mog_assets.evaluation.measures import CONTEXTS, LEADS, Board, boards, leading_measure, lower_is_better
from mog_assets.evaluation.scores import gap_closed, interval, on_documents, p_text
from mog_assets.evaluation.shares import FEWEST
from mog_assets.questions.origins import Origins, said
from mog_assets.retrieval.methods import controls, unplaced

TEMPLATE = "report.html.j2"
# Maximum number of evaluations in the history charts.
EVALUATIONS = 90
_PACKAGES = (
    "mog-assets",
    "dagster",
    "torch",
    "transformers",
    "qdrant-client",
    "qdrant-edge-py",
    "bm25s",
    "bertopic",
    "ir-measures",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
)


@dataclass(frozen=True)
class Report:
    """The data of a page; a part that is empty or None is replaced by a sentence.

    Attributes:
        scores: Result of `scores.score`.
        headline: Measures shown by default, if they have scores.
        notes: Sentences above the tables.
        main: Methods drawn by default, by board.
        groups: Results of `browse.by_group`, by board.
        duels: Results of `browse.duels`, likewise.
        shares: Result of `shares.of_one`.
        known_items: Result of `ranking.known_items.summary`.
        answers: Result of `answers.score_answers`.
        preflight: Result of `answers.preflight_quality`.
        history: Rows of one or more evaluations, from `history.rows`.
        facts: Name and value of what the scores were computed with.
        configuration: Settings, as JSON values.
        origins: Who made the questions of each set.
        agreement: Result of `agreement.agreement`.
    """

    scores: pd.DataFrame
    headline: Sequence[str] = ()
    notes: Sequence[str] = ()
    main: Mapping[Board, Sequence[str]] = field(default_factory=dict)
    groups: Mapping[Board, pd.DataFrame] = field(default_factory=dict)
    duels: Mapping[Board, Mapping[str, Any]] = field(default_factory=dict)
    shares: pd.DataFrame | None = None
    known_items: Sequence[Mapping[str, Any]] = ()
    answers: pd.DataFrame | None = None
    preflight: Sequence[Mapping[str, Any]] = ()
    history: pd.DataFrame | None = None
    facts: Sequence[tuple[str, str]] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    origins: Origins = field(default_factory=dict)
    agreement: pd.DataFrame | None = None


def render(report: Report) -> str:
    """The page.

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
    environment.filters["yaml"] = lambda values: yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    source = files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    tables = _boards(report)
    data = {
        "curves": [_curves(report, board) for board in tables if board["key"].evidence == "spans"],
        "duels": [
            {"name": board["name"], **report.duels[board["key"]]} for board in tables if board["key"] in report.duels
        ],
        "answers": _answer_points(report.answers),
        "history": _history_lines(report),
        "agreement": _agreement_points(report),
    }
    return environment.from_string(source).render(
        boards=tables,
        agreement=[] if report.agreement is None else sentences(report.agreement),
        detailed={"effect", "detectable"} <= set(report.scores.columns),
        groups=[_groups(report, board) for board in tables if board["key"] in report.groups],
        shares=_shares(report.shares),
        known_items=[_known_item(row) for row in report.known_items],
        answers=_answer_tables(report),
        notes=list(report.notes),
        facts=list(report.facts),
        configuration=dict(report.configuration),
        shown={"first": FIRST_PASSAGES, "most": MOST_PASSAGES, "gold": GOLD_CHARS, "other": OTHER_CHARS},
        fewest=FEWEST,
        alpha=ALPHA,
        evaluations=EVALUATIONS,
        data=data,
    )


def _known_item(row: Mapping[str, Any]) -> list[str]:
    """Cells of a row of known items."""
    shares = [f"{row[name]:.2f}" for name in ("first", "in 4,000 characters")]
    return [row["asked"], row["ranking"], *shares, "" if row["p"] is None else p_text(row["p"])]


def environment() -> list[tuple[str, str]]:
    """Versions of the software, and the machine: name and value."""
    rows = [("python", platform.python_version())]
    for name in _PACKAGES:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "not installed"))
    return [*rows, ("platform", platform.platform()), ("processor cores", str(os.cpu_count()))]


def _csp(script: str) -> str:
    """The content security policy source that allows this script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode('ascii')}"


def _boards(report: Report) -> list[dict[str, Any]]:
    """A table per question set and split, with methods sorted by the leading measure."""
    made = []
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
        made.append(
            {
                "key": key,
                "name": f"{key.name}{said(key.question_set, report.origins)}",
                "shows": differences_shown(part),
                "leading": LEADS[key.evidence],
                "counts": on_documents(*_counts(part).values()),
                "measures": [
                    {"name": name, "shown": name in shown, "less": lower_is_better(name)} for name in measures
                ],
                "rows": rows,
                "retrievers": list(dict.fromkeys(row["retriever"] for row in rows if row["retriever"])),
                "kinds": list(dict.fromkeys(row["kind"] for row in rows if row["kind"])),
            }
        )
    return made


def _row(rows: pd.DataFrame, measures: Sequence[str]) -> dict[str, Any]:
    by_measure = rows.set_index("measure")
    values = by_measure["value"]
    kind, topics, _ = str(rows["kind"].iloc[0]).partition("+topics")
    cells = []
    for name in measures:
        row = by_measure.loc[name]
        compared = row["baseline"] and row["baseline"] != row["method"]
        cells.append(
            {
                "value": _number(row["value"]),
                "text": _text(row["value"], name),
                "interval": _ends(row, name),
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
        "topics": bool(topics),
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
        parts.append(f"detectable {_text(row['detectable'], measure)}")
    return ", ".join(parts)


def _number(value: float) -> float | str:
    """A value to sort by; empty if there is none."""
    return "" if pd.isna(value) else round(float(value), 6)


def _text(value: float, measure: str) -> str:
    if pd.isna(value):
        return "–"
    # Numbers of tokens: for shares, more is always better.
    return f"{value:,.0f}" if lower_is_better(measure) else f"{value:.3f}"


def _ends(row: pd.Series, measure: str) -> str:
    """`[0.480, 0.544]`, or `[–]` for one document, which has no interval."""
    return "[–]" if pd.isna(row["low"]) else f"[{_text(row['low'], measure)}, {_text(row['high'], measure)}]"


def _signed(value: float, measure: str) -> str:
    if pd.isna(value):
        return ""
    return f"{value:+,.0f}" if lower_is_better(measure) else f"{value:+.3f}"


def _point(x: float, row: Mapping[str, Any], text: str, mark: str = "") -> dict[str, Any]:
    """A point of a chart; NaN becomes None."""
    y, low, high = (None if pd.isna(row[name]) else round(float(row[name]), 4) for name in ("value", "low", "high"))
    return {"x": x, "y": y, "low": low, "high": high, "text": text, "mark": mark}


def _curves(report: Report, board: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence recall over characters of context, one line per method."""
    here = dict(boards(report.scores))[board["key"]]
    main = list(report.main.get(board["key"], ()))
    contexts = [c for c in CONTEXTS if f"ER@{c}" in set(here["measure"])]
    lines = []
    for name in [*main, *(row["method"] for row in board["rows"] if row["method"] not in main)]:
        rows = here[here["method"] == name].set_index("measure")
        points = [
            _point(c, rows.loc[f"ER@{c}"], f"{name} at {c:,} characters: {_with_interval(rows.loc[f'ER@{c}'])}")
            for c in contexts
        ]
        lines.append({"name": name, "shown": name in main, "points": points})
    axes = {"x": "characters of context", "y": "evidence recall", "scale": "log", "ticks": contexts}
    return {"name": board["name"], "series": lines, **axes}


def _with_interval(row: Mapping[str, Any]) -> str:
    return interval(row["value"], row["low"], row["high"])


def _history_lines(report: Report) -> list[dict[str, Any]]:
    """The leading measure by time of evaluation, one line per method."""
    if report.history is None:
        return []
    charts = []
    for board, part in boards(report.history, report.origins):
        part = part[part["measure"] == LEADS[board.evidence]]
        kept = sorted(part["time"].unique())[-EVALUATIONS:]
        part = part[part["time"].isin(kept)].sort_values("time", kind="stable")
        last = part[part["time"] == kept[-1]].sort_values("value", ascending=False, kind="stable")
        main = list(report.main.get(board, ())) or last["method"].head(5).tolist()
        names = [*main, *(name for name in last["method"] if name not in main)]
        names += [name for name in dict.fromkeys(part["method"]) if name not in names]
        lines = []
        for name in names:
            rows = part[part["method"] == name].to_dict("records")
            points = [_evaluated(name, row) for row in rows]
            if points:
                lines.append({"name": name, "shown": name in main, "points": points})
        axes = {"x": "time of evaluation (UTC)", "y": LEADS[board.evidence], "scale": "time", "ticks": []}
        name = f"{board.name}{said(board.question_set, report.origins)}"
        charts.append({"name": name, "evaluations": len(kept), "series": lines, **axes})
    return charts


def _agreement_points(report: Report) -> list[dict[str, Any]]:
    """The mean on real questions over that on generated ones, one point per method, by kind."""
    charts = []
    for row in () if report.agreement is None else report.agreement.to_dict("records"):
        sides = {side: f"{row[f'{side}question_set']} ({row[f'{side}split']})" for side in ("", "made_")}
        both, measure = points(row, report.scores), row["measure"]
        series = []
        for kind, part in both.groupby(both["kind"].str.removesuffix("+topics"), sort=False):
            marks = []
            for method, of_method in part.iterrows():
                text = (
                    f"{method}: {measure} {_with_interval(of_method)} on {sides['']}, "
                    f"{of_method['made']:.3f} on {sides['made_']}"
                )
                point = _point(round(float(of_method["made"]), 4), of_method, text)
                marks.append({**point, "low": None, "high": None})
            series.append({"name": str(kind), "shown": True, "points": marks})
        axes = {"x": f"{measure} on {sides['made_']}", "y": f"{measure} on {sides['']}", "scale": "points", "ticks": []}
        charts.append({"name": f"{sides['made_']} and {sides['']}", "series": series, **axes})
    return charts


def _evaluated(method: str, row: Mapping[str, Any]) -> dict[str, Any]:
    time = pd.Timestamp(row["time"])
    text = f"{method}, {time:%Y-%m-%d %H:%M}: {_with_interval(row)}"
    mark = ""
    if row["dropped"]:
        mark = "drop"
    elif not pd.isna(row["p_vs_accepted"]) and row["p_vs_accepted"] < ALPHA:
        mark = "rise"
    if mark:
        text += f", significant {mark} from the accepted scores (p {p_text(row['p_vs_accepted'])})"
    return _point(int(time.timestamp()), row, text, mark)


def _groups(report: Report, board: Mapping[str, Any]) -> dict[str, Any]:
    """A table per measure: groups of questions by methods."""
    table = report.groups[board["key"]]
    methods = list(dict.fromkeys(table["method"]))
    tables = []
    for measure, part in table.groupby("measure", sort=False):
        rows = []
        for (by, group), of_group in part.groupby(["by", "group"], sort=False):
            at = of_group.set_index("method")
            best = of_group["value"].min() if lower_is_better(measure) else of_group["value"].max()
            cells = [
                {
                    "value": _number(at.loc[name, "value"]),
                    "text": _text(at.loc[name, "value"], str(measure)),
                    "interval": _ends(at.loc[name], str(measure)),
                    "best": at.loc[name, "value"] == best,
                }
                for name in methods
            ]
            rows.append({"by": by, "group": group or "(none)", **_counts(of_group), "cells": cells})
        tables.append({"measure": measure, "rows": rows})
    return {"name": board["name"], "methods": methods, "tables": tables}


def _counts(rows: pd.DataFrame) -> dict[str, int]:
    """Questions and documents."""
    return {name: int(rows[name].max()) for name in ("n", "documents")}


def _shares(shares: pd.DataFrame | None) -> dict[str, Any] | None:
    """How much each level and retriever counted: names with colour and tone, and a row with widths for each group."""
    if shares is None or shares.empty:
        return None
    names = list(shares.columns[3:])
    levels = len(names) // 2
    tones = [round(20 + 80 * level / levels) for level in range(1, levels + 1)]
    looks = [*((colour, tone) for colour in ("c1", "c0") for tone in tones), ("c6", 100)]
    rows = []
    for by, group, n, *sizes in shares.itertuples(index=False, name=None):
        starts = np.cumsum([0, *sizes[:-1]])
        rows.append({"by": by, "group": group, "n": n, "parts": list(zip(starts.tolist(), sizes, strict=True))})
    parts = [{"name": name, "colour": colour, "tone": tone} for name, (colour, tone) in zip(names, looks, strict=True)]
    return {"method": shares.attrs["method"], "parts": parts, "rows": rows}


def _answer_points(answers: pd.DataFrame | None) -> list[dict[str, Any]]:
    """Exact match and F1 over tokens read, one point per answering method."""
    charts = []
    for name, part in answers.groupby("question_set", sort=False) if answers is not None and len(answers) else ():
        for measure in ANSWER_MEASURES:
            rows = part[part["measure"] == measure].to_dict("records")
            points = [
                {
                    "name": row["method"],
                    "shown": True,
                    "points": [
                        _point(
                            round(row["tokens_in"], 1),
                            row,
                            f"{row['method']}: {measure} {_with_interval(row)}, reads {row['tokens_in']:,.0f}",
                        )
                    ],
                }
                for row in rows
            ]
            axes = {"x": "read for a question, mean", "y": measure, "scale": "cost", "ticks": []}
            charts.append({"name": f"{name}: {measure}", "series": points, **axes})
    return charts


def _answer_tables(report: Report) -> dict[str, Any]:
    """Answering methods by question set, and the quality of BriefContext's preflight, as rows of text."""
    answers = report.answers
    if answers is None or answers.empty:
        return {"boards": [], "preflight": []}
    boards = []
    for name, part in answers.groupby("question_set", sort=False):
        spent = part.drop_duplicates("method").set_index("method")
        rows = []
        for row in answer_board(answers, str(name)):
            mean = spent.loc[row["method"]]
            calls = {
                "calls": f"{mean['calls']:.1f}",
                "written": f"{mean['tokens_out']:.0f}",
                "$": f"{mean['cost']:.4f}",
            }
            rows.append({**{key: value for key, value in row.items() if key != "reader"}, **calls})
        columns = list(dict.fromkeys(key for row in rows for key in row))
        counts = on_documents(*_counts(part).values())
        reader = ", ".join(dict.fromkeys(part["reader"]))
        boards.append({"name": name, "counts": counts, "reader": reader, "columns": columns, "rows": rows})
    preflight = [
        {key: f"{value:.3f}" if isinstance(value, float) else str(value) for key, value in row.items()}
        for row in report.preflight
    ]
    return {"boards": boards, "preflight": preflight}
