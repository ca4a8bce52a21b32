"""How good answers are, and what they cost.

References: Rajpurkar et al. 2016 (SQuAD), section 6.1, for exact match and F1 of open answers; BriefContext, section
2.3, for the quality of its preflight.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answering.preflight import TOP, Confusion
from mog_assets.corpus.questions import Question
from mog_assets.evaluation.scores import interval, p_text
from mog_assets.significance import bootstrap_interval, holm, permutation_p

MEASURES = ("exact match", "F1")
JUDGE = "judge"
BASELINE = "cot"
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """An answer in lower case without punctuation, articles and extra white space, as SQuAD's scorer has it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """1 if an answer equals one of the gold answers after `normalised`, else 0."""
    return float(normalised(answer) in {normalised(text) for text in gold})


def f1(answer: str, gold: Sequence[str]) -> float:
    """The greatest harmonic mean of precision and recall of an answer's words against those of a gold answer."""

    def one(other: str) -> float:
        said, wanted = normalised(answer).split(), normalised(other).split()
        common = sum((Counter(said) & Counter(wanted)).values())
        if not said or not wanted:
            return float(said == wanted)
        return 2 * common / (len(said) + len(wanted))

    return max(map(one, gold), default=0.0)


def mark(answers: pd.DataFrame, questions: Mapping[str, Sequence[Question]]) -> pd.DataFrame:
    """Marks of every answer.

    Args:
        answers: As the asset `answers` holds them.
        questions: By question set.

    Returns:
        `question_set`, `question`, `method`, `reader`, `answered`, both of `MEASURES`, `judge` (the judge's mean mark,
        0 to 10; NaN where there is none), `asked judge`, and what the answer cost. For a question with options both
        measures tell whether the letter is right. Without an answer both are 0.
    """
    known = {(name, q.id): q for name, members in questions.items() for q in members}
    rows = []
    for row in answers.to_dict("records"):
        question = known[row["question_set"], row["question"]]
        answered, said = not row["failure"], str(row["answer"] or "")
        if question.options:
            right = float(answered and said == question.answer)
            marks = {"exact match": right, "F1": right}
        else:
            gold = [question.answer, *question.aliases]
            marks = (
                {"exact match": exact_match(said, gold), "F1": f1(said, gold)}
                if answered
                else dict.fromkeys(MEASURES, 0.0)
            )
        kept = (
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
        judgement = json.loads(row["judgement"]) if isinstance(row.get("judgement"), str) else {}
        marks |= {JUDGE: judgement.get("overall", np.nan), "asked judge": bool(judgement)}
        rows.append({**{name: row[name] for name in kept}, "cost": row["cost"], "answered": answered, **marks})
    return pd.DataFrame(rows)


def score_answers(marks: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Mean marks of every way of answering in every question set.

    Args:
        marks: As `mark` gives them.
        seed: Of the resamples.

    Returns:
        A row per question set, method and measure (`judge` only where one was asked: its mean over the answers that it
        could mark, coverage being their share): value with its 95 % bootstrap interval low … high, n questions,
        coverage (the share that has an answer), p_vs_cot (two-sided, paired permutation test against `cot`,
        Holm-corrected over the methods; NaN for `cot` itself or where it did not run), means of rounds, calls and
        tokens, and the whole cost in dollars.
    """
    tables = []
    for question_set, part in marks.groupby("question_set", sort=False):
        methods = list(dict.fromkeys(part["method"]))
        cells = part.set_index(["question", "method"])[list(MEASURES)].unstack("method")
        values = np.stack(
            [cells.xs(m, axis=1, level="method")[list(MEASURES)].to_numpy(float) for m in methods], axis=1
        )
        n, means = len(values), values.mean(axis=0)
        low, high = (ends.reshape(means.shape) for ends in bootstrap_interval(values.reshape(n, -1), seed=seed))
        p = np.full(means.shape, np.nan)
        if BASELINE in methods and len(methods) > 1:
            others = [i for i, method in enumerate(methods) if method != BASELINE]
            differences = values[:, others] - values[:, [methods.index(BASELINE)]]
            flat = permutation_p(differences.reshape(n, -1), seed=seed).reshape(len(others), -1)
            p[others] = np.stack([holm(column) for column in flat.T], axis=1)
        by_method = part.groupby("method")
        spent = by_method[["rounds", "calls", "tokens_in", "tokens_out"]].mean()
        tables += [
            {
                "question_set": str(question_set),
                "method": method,
                "reader": str(part.loc[part["method"] == method, "reader"].iloc[0]),
                "measure": measure,
                "value": means[i, j],
                "low": low[i, j],
                "high": high[i, j],
                "n": n,
                "coverage": float(by_method["answered"].mean()[method]),
                "p_vs_cot": p[i, j],
                **{name: float(spent.loc[method, name]) for name in spent},
                "cost": float(by_method["cost"].sum()[method]),
            }
            for i, method in enumerate(methods)
            for j, measure in enumerate(MEASURES)
        ]
        judged = [method for method in methods if part.loc[part["method"] == method, "asked judge"].any()]
        tables += [_judge_row(tables, part[part["method"] == method], seed) for method in judged]
    return pd.DataFrame(tables)


def _judge_row(tables: list[dict[str, Any]], part: pd.DataFrame, seed: int) -> dict[str, Any]:
    """The judge's mean mark for a way of answering, beside what is in its other rows."""
    asked = part[part["asked judge"]]
    marks = asked[JUDGE].dropna().to_numpy(float)
    low, high = bootstrap_interval(marks[:, None], seed=seed) if len(marks) else (np.array([np.nan]),) * 2
    first, keys = part.iloc[0], ("question_set", "method")
    other = next(row for row in tables if all(row[key] == first[key] for key in keys))
    measured = {"measure": JUDGE, "value": float(marks.mean()) if len(marks) else np.nan, "n": len(asked)}
    measured |= {"low": float(low[0]), "high": float(high[0]), "p_vs_cot": np.nan}
    return {**other, **measured, "coverage": len(marks) / len(asked)}


def answer_board(scores: pd.DataFrame, question_set: str) -> list[dict[str, Any]]:
    """A question set's ways of answering, best first, as text to print."""
    rows = []
    for method, part in scores[scores["question_set"] == question_set].groupby("method", sort=False):
        by_measure = part.set_index("measure")
        # Of a question with options both measures are the same; of an open one few answers match to the letter.
        first = by_measure.loc["F1"]
        shown = {name: interval(*by_measure.loc[name, ["value", "low", "high"]]) for name in MEASURES}
        row = {"method": method, **shown, "p vs cot": p_text(first["p_vs_cot"]), "answered": f"{first['coverage']:.0%}"}
        if JUDGE in by_measure.index:
            marks = by_measure.loc[JUDGE]
            row["judge"] = f"{interval(*marks[['value', 'low', 'high']])} of {marks['coverage']:.0%}"
        row |= {"rounds": f"{first['rounds']:.1f}", "read": f"{first['tokens_in']:.0f}", "reader": first["reader"]}
        rows.append((first["value"], row))
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]


def preflight_quality(answers: pd.DataFrame, questions: Mapping[str, Sequence[Question]]) -> list[dict[str, Any]]:
    """How well BriefContext's preflight foresees that the key document stands below the top.

    Counted are questions with evidence of which a document is among the passages: elsewhere there is nothing to lose.
    """
    known = {(name, q.id): q for name, members in questions.items() for q in members}
    found = []
    for (question_set, method), part in answers.groupby(["question_set", "method"], sort=False):
        predicted, truth = [], []
        for row in part.to_dict("records"):
            preflight = json.loads(row["preflight"]) if isinstance(row["preflight"], str) else None
            gold = {(e.corpus, e.doc) for e in known[question_set, row["question"]].evidence}
            passages = json.loads(row["passages"])
            ranks = [i for i, p in enumerate(passages, 1) if gold & {(corpus, doc) for corpus, doc, *_ in p["spans"]}]
            if preflight and ranks:
                predicted.append(bool(preflight["map_reduce"]))
                truth.append(ranks[0] > TOP)
        if predicted:
            counts = Confusion.of(predicted, truth)
            found.append(
                {
                    "question set": question_set,
                    "method": method,
                    "n": len(predicted),
                    **{name: getattr(counts, name) for name in ("tp", "fp", "fn", "tn", "precision", "recall", "f1")},
                }
            )
    return found
