"""Means over questions, with intervals and comparisons with the best fixed level or another baseline.

Intervals and tests resample documents, not questions: see `significance`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.evaluate.measures import (
    boards,
    document_measures,
    leading_measure,
    lower_is_better,
    measure_names,
)
from mog_assets.evaluate.significance import compare_cells
from mog_assets.search.methods import controls

# Columns that a comparison with a baseline adds to a mean.
COMPARED = ("difference", "difference_low", "difference_high", "effect", "p", "detectable")
COLUMNS = (
    "question_set",
    "split",
    "evidence",
    "method",
    "retriever",
    "kind",
    "measure",
    "value",
    "low",
    "high",
    "n",
    "documents",
    "coverage",
    "baseline",
    "difference",
    "difference_low",
    "difference_high",
    "effect",
    "p_vs_best_fixed",
    "detectable",
)


def compare(per_question: pd.DataFrame, measures: Sequence[str], baseline: str | None, seed: int) -> pd.DataFrame:
    """Return means of the cells of an experiment, with their intervals and their comparison with one of them.

    Args:
        per_question: Columns `question`, `document` (what the question is about), `cell` and every measure: one row
            for each question and cell, without missing values.
        measures: Names of the measures.
        baseline: The cell that the others are compared with, or None.
        seed: Seed of resamples and random signs.

    Returns:
        A row per cell (in the order of `per_question`) and measure: cell, measure, value with its 95 % bootstrap
        interval low … high over documents, n questions, number of documents; difference (mean paired difference, cell
        minus baseline) with its interval difference_low … difference_high, effect (`significance.effect_size`), p
        (two-sided paired permutation test over documents, Holm-corrected over the cells, separately for each measure)
        and detectable (the smallest difference detected with a power of .8 at .05 divided by the number of cells
        compared, as Holm's first step requires). These six are NaN for the baseline itself and without one. If less is
        better, a negative difference is good.

    Raises:
        ValueError: a question lacks a cell, has it twice or without a number, or the baseline is not a cell.
    """
    cells, documents, values = cell_values(per_question, "cell", measures)
    if baseline is not None and baseline not in cells:
        raise ValueError(f"baseline: expected one of the cells {', '.join(cells)}, or None, got {baseline!r}")
    at = np.full((len(cells), len(measures)), -1 if baseline is None else cells.index(baseline))
    return _rows(cells, measures, documents, compare_cells(values, at, documents, seed)).rename(
        columns={"name": "cell"}
    )


def cell_values(table: pd.DataFrame, column: str, measures: Sequence[str]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return a table of a row per question and cell as an array; tests are paired: every cell must have every question.

    Args:
        table: Columns `question`, `document`, `column` and every measure.
        column: The column with the cell of each row.
        measures: Names of the measures.

    Returns:
        Names of the cells, in the order of the table; document of each question, shape (questions,); float array of
        shape (questions, cells, measures), questions sorted by id.

    Raises:
        ValueError: there is no row; or a question lacks a cell, has it twice, or without a number.
    """
    question, questions = pd.factorize(table["question"].astype(str), sort=True)
    cell, cells = pd.factorize(table[column].astype(str))
    if not len(table):
        raise ValueError("per_question: expected at least one question, got none")
    rows = np.bincount(question * len(cells) + cell, minlength=len(questions) * len(cells))
    if (rows != 1).any():
        first = int(np.flatnonzero(rows != 1)[0])
        where = f"{questions[first // len(cells)]!r} in {cells[first % len(cells)]!r}"
        raise ValueError(
            f"per_question: expected one row for every question and {column}, got {rows[first]} of question {where}: "
            "leave out questions that some lack, or score missing ones as failures"
        )
    values = np.empty((len(questions), len(cells), len(measures)))
    values[question, cell] = table[list(measures)].to_numpy(np.float64)
    if np.isnan(values).any():
        at, of, measure = (int(places[0]) for places in np.nonzero(np.isnan(values)))
        raise ValueError(
            f"per_question: expected a number for every question, {column} and measure, got none for "
            f"{measures[measure]!r} of question {questions[at]!r} in {cells[of]!r}: leave the question out of every "
            f"{column}, or score it as a failure"
        )
    _, rows = np.unique(question, return_index=True)
    return [str(name) for name in cells], table["document"].to_numpy(str)[rows], values


def _rows(
    names: Sequence[str], measures: Sequence[str], documents: np.ndarray, columns: Mapping[str, np.ndarray]
) -> pd.DataFrame:
    """Return a row per cell and measure from arrays of shape (cells, measures)."""
    counts = {"n": len(documents), "documents": len(np.unique(documents))}
    table = pd.DataFrame({"name": np.repeat(list(names), len(measures)), "measure": list(measures) * len(names)})
    numbers = {key: columns[key].ravel() for key in ("value", "low", "high")}
    return table.assign(**numbers, **counts, **{key: columns[key].ravel() for key in COMPARED})


def score(per_question: pd.DataFrame, k: int, seed: int, kinds: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Return mean of every measure for every method, with its interval and its comparison with the best fixed level.

    Args:
        per_question: Result of `measures.evaluate` with the same `k`.
        k: Number of passages per question.
        seed: Seed of the resamples.
        kinds: Retriever and kind of each method; kind `fixed` marks a fixed level, those of `controls` a method
            without a comparison.

    Returns:
        A row per board (see `measures.Board`), method and measure, with columns `COLUMNS`: value with its 95 %
        bootstrap interval low … high, n questions, number of documents, coverage (the share of questions with any
        passage), baseline (the fixed level with the best mean, whatever its retriever: the lowest if less is better;
        empty if none ran, and for `controls`) and the comparison with it as in `compare`, p_vs_best_fixed being p,
        Holm-corrected over the methods of the question set; NaN for the baseline itself.
    """
    tables = []
    for board, part in boards(per_question):
        names = list(measure_names(k) if board.evidence == "spans" else document_measures(k))
        methods, documents, values = cell_values(part, "method", names)
        baselines = _best_levels(values.mean(axis=0), methods, names, kinds)
        table = _rows(methods, names, documents, compare_cells(values, baselines, documents, seed))
        table = table.rename(columns={"name": "method", "p": "p_vs_best_fixed"})
        retrievers, of = ({m: kinds.get(m, ("", ""))[i] for m in methods} for i in (0, 1))
        tables.append(
            table.assign(
                **board._asdict(),
                retriever=table["method"].map(retrievers),
                kind=table["method"].map(of),
                coverage=table["method"].map(part.groupby("method")["answered"].mean()),
                baseline=[methods[i] if i >= 0 else "" for i in baselines.ravel()],
            )
        )
    if not tables:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def _best_levels(
    means: np.ndarray, methods: Sequence[str], measures: Sequence[str], kinds: Mapping[str, tuple[str, str]]
) -> np.ndarray:
    """Return best fixed level of all retrievers, for each method and measure; −1 for none, as in `compare_cells`."""
    goodness = means * np.where([lower_is_better(name) for name in measures], -1.0, 1.0)
    baselines = np.full(means.shape, -1)
    of = [kinds.get(method, ("", ""))[1] for method in methods]
    fixed = [j for j, kind in enumerate(of) if kind == "fixed"]
    if fixed:
        compared = [i for i, kind in enumerate(of) if kind not in controls()]
        baselines[compared] = np.array(fixed)[goodness[fixed].argmax(axis=0)]
    return baselines


def leaderboard(scores: pd.DataFrame, measures: Sequence[str], order_by: str | None = None) -> list[dict[str, Any]]:
    """Return the methods of a board, best first, as text to print.

    Args:
        scores: Rows of `score` of one board.
        measures: Those to show; what the board does not have is left out.
        order_by: A measure; None for the leading one.

    Returns:
        A dict per method: method, each measure as `value [low, high]`, p (of `order_by` against the best single level,
        empty without a test) and coverage.
    """
    present = set(scores["measure"])
    order_by = order_by or leading_measure(present)
    rows = []
    for _, part in scores.groupby("method", sort=False):
        by_measure = part.set_index("measure")
        if order_by not in by_measure.index:
            continue
        leading = by_measure.loc[order_by]
        shown = {m: interval(*by_measure.loc[m, ["value", "low", "high"]]) for m in measures if m in present}
        row = {"method": leading["method"], **shown, "p": p_text(leading["p_vs_best_fixed"])}
        rows.append((leading["value"], {**row, "coverage": f"{leading['coverage']:.0%}"}))
    rows.sort(key=lambda pair: pair[0], reverse=not lower_is_better(order_by))
    return [row for _, row in rows]


def gap_closed(means: pd.DataFrame, method: str) -> float | str:
    """Return the share of the gap from the best fixed level to gold evidence that a method closes.

    Args:
        means: Rows of one measure of `score` for a question set and split, by method: columns value and kind.
        method: The method.

    Returns:
        Empty for that level, for gold evidence, below that level, and where there is no gap.
    """
    fixed, gold = (means.loc[means["kind"] == kind, "value"] for kind in ("fixed", "gold"))
    value = float(means.loc[method, "value"])
    if fixed.empty or gold.empty or means.loc[method, "kind"] == "gold" or not fixed.max() < value:
        return ""
    gap = float(gold.max() - fixed.max())
    return (value - float(fixed.max())) / gap if gap > 0 else ""


def interval(value: float, low: float, high: float, form: str = ".3f") -> str:
    """Return `0.512 [0.480, 0.544]`, or `0.512 [–]` for one document, which has no interval."""
    between = "–" if np.isnan(low) else f"{low:{form}}, {high:{form}}"
    return f"{value:{form}} [{between}]"


def on_documents(questions: int, documents: int) -> str:
    """Return `103 questions on 19 documents`."""
    return f"{questions:,} question{'s' * (questions != 1)} on {documents:,} document{'s' * (documents != 1)}"


def p_text(p: float) -> str:
    """Return a p-value with three decimals; empty if there is none."""
    if np.isnan(p):
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def p_said(p: float) -> str:
    """Return a p-value in a sentence: `p = 0.012`, `p < 0.001`."""
    text = p_text(p)
    return f"p {text[0]} {text[1:]}" if text.startswith("<") else f"p = {text}"
