"""What the charts of the report show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer.answerers import AnswerTable
from mog_assets.evaluate.answers import MEASURES as ANSWER_MEASURES
from mog_assets.evaluate.answers import answer_board
from mog_assets.evaluate.measures import CONTEXTS, LEADS, Board, boards, lower_is_better
from mog_assets.evaluate.scores import interval, on_documents, p_text
from mog_assets.plugins.report.history import ALPHA
from mog_assets.questions.sources import Origins, board_suffix

# Maximum number of evaluations in the history charts.
EVALUATIONS = 90


@dataclass(frozen=True)
class Report:
    """The data of a page; a part that is empty or None is replaced by a sentence.

    Attributes:
        scores: Result of `scores.score`.
        headline: Measures shown by default, if they have scores.
        advice: The sentence that the page begins with.
        bars: Its picture: name, value and what is said of the value, of the most important methods.
        notes: Further sentences, which say how the scores came about.
        main: Methods drawn by default, by board.
        groups: Results of `browse.by_group`, by board.
        shares: Result of `shares.of_one`.
        known_items: Result of `evaluate.known_items.summary`.
        answers: Result of `answers.score_answers`.
        answer_tables: Tables of ways of answering, with their rows.
        history: Rows of one or more evaluations, from `history.rows`.
        facts: Name and value of what the scores were computed with.
        configuration: Settings, as JSON values.
        origins: Who made the questions of each set.
    """

    scores: pd.DataFrame
    headline: Sequence[str] = ()
    advice: str = ""
    bars: Sequence[tuple[str, float, str]] = ()
    notes: Sequence[str] = ()
    main: Mapping[Board, Sequence[str]] = field(default_factory=dict)
    groups: Mapping[Board, pd.DataFrame] = field(default_factory=dict)
    shares: pd.DataFrame | None = None
    known_items: Sequence[Mapping[str, Any]] = ()
    answers: pd.DataFrame | None = None
    answer_tables: Sequence[tuple[AnswerTable, Sequence[Mapping[str, Any]]]] = ()
    history: pd.DataFrame | None = None
    facts: Sequence[tuple[str, str]] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    origins: Origins = field(default_factory=dict)


def number(value: float) -> float | str:
    """Return a value to sort by; empty if there is none."""
    return "" if pd.isna(value) else round(float(value), 6)


def text(value: float, measure: str) -> str:
    """Return a value as it is printed."""
    if pd.isna(value):
        return "–"
    # Numbers of tokens: for shares, more is always better.
    return f"{value:,.0f}" if lower_is_better(measure) else f"{value:.3f}"


def ends(row: pd.Series, measure: str) -> str:
    """Return `[0.480, 0.544]`, or `[–]` for one document, which has no interval."""
    return "[–]" if pd.isna(row["low"]) else f"[{text(row['low'], measure)}, {text(row['high'], measure)}]"


def point(x: float, row: Mapping[str, Any], text: str, mark: str = "") -> dict[str, Any]:
    """Return a point of a chart; NaN becomes None."""
    y, low, high = (None if pd.isna(row[name]) else round(float(row[name]), 4) for name in ("value", "low", "high"))
    return {"x": x, "y": y, "low": low, "high": high, "text": text, "mark": mark}


def curves(report: Report, board: Mapping[str, Any]) -> dict[str, Any]:
    """Return evidence recall over characters of context, one line per method."""
    here = dict(boards(report.scores))[board["key"]]
    main = list(report.main.get(board["key"], ()))
    contexts = [c for c in CONTEXTS if f"ER@{c}" in set(here["measure"])]
    lines = []
    for name in [*main, *(row["method"] for row in board["rows"] if row["method"] not in main)]:
        rows = here[here["method"] == name].set_index("measure")
        points = [
            point(c, rows.loc[f"ER@{c}"], f"{name} at {c:,} characters: {_with_interval(rows.loc[f'ER@{c}'])}")
            for c in contexts
        ]
        lines.append({"name": name, "shown": name in main, "points": points})
    axes = {"x": "characters of context", "y": "evidence recall", "scale": "log", "ticks": contexts}
    return {"name": board["name"], "series": lines, **axes}


def _with_interval(row: Mapping[str, Any]) -> str:
    return interval(row["value"], row["low"], row["high"])


def history_lines(report: Report) -> list[dict[str, Any]]:
    """Return the leading measure by time of evaluation, one line per method."""
    if report.history is None:
        return []
    charts = []
    for board, part in boards(report.history, report.origins):
        part = part[part["measure"] == LEADS[board.evidence]]
        times = sorted(part["time"].unique())[-EVALUATIONS:]
        part = part[part["time"].isin(times)].sort_values("time", kind="stable")
        last = part[part["time"] == times[-1]].sort_values("value", ascending=False, kind="stable")
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
        name = f"{board.name}{board_suffix(board.question_set, report.origins)}"
        charts.append({"name": name, "evaluations": len(times), "series": lines, **axes})
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
    return point(int(time.timestamp()), row, text, mark)


def groups(report: Report, board: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table per measure: groups of questions by methods."""
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
                    "value": number(at.loc[name, "value"]),
                    "text": text(at.loc[name, "value"], str(measure)),
                    "interval": ends(at.loc[name], str(measure)),
                    "best": at.loc[name, "value"] == best,
                }
                for name in methods
            ]
            rows.append({"by": by, "group": group or "(none)", **counts(of_group), "cells": cells})
        tables.append({"measure": measure, "rows": rows})
    return {"name": board["name"], "methods": methods, "tables": tables}


def counts(rows: pd.DataFrame) -> dict[str, int]:
    """Return questions and documents."""
    return {name: int(rows[name].max()) for name in ("n", "documents")}


def shares(shares: pd.DataFrame | None) -> dict[str, Any] | None:
    """Return how much each level and retriever counted: names with colour and tone, and widths by group."""
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


def answer_points(answers: pd.DataFrame | None) -> list[dict[str, Any]]:
    """Return exact match and F1 over tokens read, one point per answering method."""
    charts = []
    for name, part in answers.groupby("question_set", sort=False) if answers is not None and len(answers) else ():
        for measure in ANSWER_MEASURES:
            rows = part[part["measure"] == measure].to_dict("records")
            points = [
                {
                    "name": row["method"],
                    "shown": True,
                    "points": [
                        point(
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


def answer_tables(report: Report) -> dict[str, Any]:
    """Return answering methods by question set, and tables of ways of answering, as rows of text."""
    answers = report.answers
    if answers is None or answers.empty:
        return {"boards": [], "tables": []}
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
        count_text = on_documents(*counts(part).values())
        reader = ", ".join(dict.fromkeys(part["reader"]))
        boards.append({"name": name, "counts": count_text, "reader": reader, "columns": columns, "rows": rows})
    return {"boards": boards, "tables": [(table, _texts(rows)) for table, rows in report.answer_tables if rows]}


def _texts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [
        {key: f"{value:.3f}" if isinstance(value, float) else str(value) for key, value in row.items()} for row in rows
    ]
