"""Quality and cost of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer.notation import is_control
from mog_assets.answer.rows import judge_measures
from mog_assets.evaluate.scores import COMPARED, compare, interval, p_text
from mog_assets.evaluate.significance import bootstrap_interval, by_document
from mog_assets.questions.marks import exact_match, f1
from mog_assets.questions.sets import Question
from mog_assets.registry import ANSWER_MEASURES as ANSWER_MEASURES

MEASURES = ("exact match", "F1")
BASELINE = "cot"
_COMPARED = tuple("p_vs_cot" if name == "p" else name for name in COMPARED)
COLUMNS = (
    "question_set",
    "method",
    "reader",
    "measure",
    "value",
    "low",
    "high",
    "n",
    "documents",
    "coverage",
    *_COMPARED,
    "rounds",
    "calls",
    "tokens_in",
    "tokens_out",
    "cost",
)


@dataclass(frozen=True)
class AnswerMeasure:
    """A further measure of answers.

    Attributes:
        mark: Gives the mark of an answer, given its row and the question.
        applies: Tells whether answers to a question can be marked by it.
    """

    mark: Callable[[Mapping[str, Any], Question], float]
    applies: Callable[[Question], bool]


def mark(answers: pd.DataFrame, questions: Mapping[str, Sequence[Question]]) -> pd.DataFrame:
    """Return marks of every answer.

    Args:
        answers: Table of the asset `answers`.
        questions: By question set.

    Returns:
        `question_set`, `question`, `document` (what it is about), `method`, `reader`, `answered`, both of `MEASURES`,
        each of `ANSWER_MEASURES` (NaN in a question set with questions that it does not apply to) and of
        `judge_measures` (NaN if there is no mark) with `asked …`, whether the judge was asked for it, and the cost of
        the answer. For a question with options both measures say whether the letter is right. Without an answer both
        are 0.
    """
    by_id = {(name, q.id): q for name, members in questions.items() for q in members}
    records = answers.to_dict("records")
    others = {
        (name, row["question_set"])
        for row in records
        for name, measure in ANSWER_MEASURES.items()
        if not measure.applies(by_id[row["question_set"], row["question"]])
    }
    rows = []
    for row in records:
        question = by_id[row["question_set"], row["question"]]
        answered, answer = not row["failure"], str(row["answer"] or "")
        if question.options:
            right = float(answered and answer == question.answer)
            marks = {"exact match": right, "F1": right}
        else:
            gold = [question.answer, *question.aliases]
            marks = (
                {"exact match": exact_match(answer, gold), "F1": f1(answer, gold)}
                if answered
                else dict.fromkeys(MEASURES, 0.0)
            )
        columns = (
            "question_set",
            "question",
            "method",
            "reader",
            "rounds",
            "calls",
            "tokens_in",
            "tokens_out",
            "token_unit",
        )
        for name, measure in ANSWER_MEASURES.items():
            marks[name] = np.nan if (name, row["question_set"]) in others else measure.mark(row, question)
        # `null` where there was no answer to judge.
        judgement = (json.loads(row["judgement"]) if isinstance(row.get("judgement"), str) else None) or {}
        for name in judge_measures():
            marks[name] = judgement.get(name, np.nan)
            marks[f"asked {name}"] = name in judgement or name in judgement.get("failures", ())
        rows.append({**{name: row[name] for name in columns}, "document": question.document, "cost": row["cost"]})
        rows[-1] |= {"answered": answered, **marks}
    return pd.DataFrame(rows)


def score_answers(marks: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return mean marks of every answering method in every question set.

    Args:
        marks: Result of `mark`.
        seed: Seed of the resamples.

    Returns:
        A row per question set, method and measure: value with its 95 % bootstrap interval low … high over documents, n
        questions, number of documents, coverage (the share that has an answer), the comparison with `cot` as in
        `scores.compare` (difference, difference_low, difference_high, effect, p_vs_cot being p, detectable; NaN for
        `cot` itself, if it did not run, and for controls, which are not tested), means of rounds, calls and tokens,
        and the total cost in dollars. Those of `ANSWER_MEASURES` are included that were marked. `judge` is included
        only if there is a judge: its mean over the answers that it could mark, coverage being their share, without a
        comparison.

    Raises:
        ValueError: a question lacks a method.
    """
    tables = []
    for question_set, part in marks.groupby("question_set", sort=False):
        measures = [*MEASURES, *(name for name in ANSWER_MEASURES if part[name].notna().all())]
        baseline = BASELINE if (part["method"] == BASELINE).any() else None
        cells, control = part.rename(columns={"method": "cell"}), part["method"].map(is_control).astype(bool)
        compared = compare(cells[~control], measures, baseline, seed)
        if control.any():
            compared = pd.concat([compared, compare(cells[control], measures, None, seed)], ignore_index=True)
        spent = {name: (name, "mean") for name in ("rounds", "calls", "tokens_in", "tokens_out")}
        costs = part.groupby("method").agg(
            reader=("reader", "first"), coverage=("answered", "mean"), **spent, cost=("cost", "sum")
        )
        table = compared.rename(columns={"cell": "method", "p": "p_vs_cot"}).join(costs, on="method")
        table = table.assign(question_set=str(question_set))[list(COLUMNS)]
        judged = [
            table[table["method"] == method].head(1).assign(**_judged(answers, name, seed))
            for name in judge_measures()
            for method, answers in part[part[f"asked {name}"]].groupby("method", sort=False)
        ]
        tables += [table, *judged]
    return pd.concat(tables, ignore_index=True)


def _judged(marks: pd.DataFrame, name: str, seed: int) -> dict[str, Any]:
    """Return fields in which the row of a judge's measure (NaN where it failed) differs from a method's other rows."""
    read = marks[marks[name].notna()]
    totals = by_document(read[name].to_numpy(float), read["document"].to_numpy(str))
    (value,), ((low,), (high,)) = totals.mean, bootstrap_interval(totals, seed=seed)
    measured = {"measure": name, "value": value, "low": low, "high": high, "n": len(marks)}
    counts = {"documents": marks["document"].nunique(), "coverage": len(read) / len(marks)}
    return {**measured, **counts, **dict.fromkeys(_COMPARED, np.nan)}


def answer_board(scores: pd.DataFrame, question_set: str) -> list[dict[str, Any]]:
    """Return a question set's answering methods, best first, as text to print."""
    rows, here = [], scores[scores["question_set"] == question_set]
    judged = [name for name in judge_measures() if name in set(here["measure"])]
    for method, part in here.groupby("method", sort=False):
        by_measure = part.set_index("measure")
        # For a question with options both measures are equal; for an open one few answers match exactly.
        first = by_measure.loc["F1"]
        measures = [name for name in (*MEASURES, *ANSWER_MEASURES) if name in by_measure.index]
        shown = {name: interval(*by_measure.loc[name, ["value", "low", "high"]]) for name in measures}
        row = {"method": method, **shown, "p vs cot": p_text(first["p_vs_cot"]), "answered": f"{first['coverage']:.0%}"}
        for name in judged:
            row[name] = ""
            if name in by_measure.index:
                marks = by_measure.loc[name]
                read = interval(*marks[["value", "low", "high"]]) if marks["coverage"] else "none"
                row[name] = f"{read} of {marks['coverage']:.0%}"
        row |= {"rounds": f"{first['rounds']:.1f}", "read": f"{first['tokens_in']:.0f}", "reader": first["reader"]}
        rows.append((first["value"], row))
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
