"""How well BriefContext's preflight predicts that the key document is ranked below the top (section 2.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mog_assets.papers.briefcontext.preflight import TOP
from mog_assets.questions.sets import Question


@dataclass(frozen=True)
class Confusion:
    """Counts of preflight predictions against the truth (the key document is ranked below the top): section 2.3."""

    tp: int
    fp: int
    fn: int
    tn: int

    @classmethod
    def of(cls, predicted: Sequence[bool], truth: Sequence[bool]) -> Confusion:
        """Return counts over questions."""
        pairs = list(zip(predicted, truth, strict=True))
        counts = [pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]
        return cls(*counts)

    @property
    def precision(self) -> float | None:
        """Share of positive predictions that are true; None if there are none."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else None

    @property
    def recall(self) -> float | None:
        """Share of true cases that were predicted; None if there are none."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall; None if nothing is true and nothing was predicted."""
        both = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / both if both else None


def preflight_cases(answers: pd.DataFrame, questions: Mapping[str, Sequence[Question]]) -> pd.DataFrame:
    """Return whether BriefContext's preflight predicted that the key document is ranked below the top.

    Only questions with a gold document among the passages count: otherwise there is nothing to predict.

    Args:
        answers: Table of the asset `answers`.
        questions: By question set.

    Returns:
        A row per answer: question_set, method, document (what the question is about), foreseen, below.
    """
    by_id = {(name, q.id): q for name, members in questions.items() for q in members}
    rows = []
    for row in answers.to_dict("records"):
        question = by_id[row["question_set"], row["question"]]
        preflight = json.loads(row["preflight"]) if isinstance(row.get("preflight"), str) else None
        gold = {(e.corpus, e.doc) for e in question.evidence}
        passages = json.loads(row["passages"]) if preflight else []
        ranks = [i for i, p in enumerate(passages, 1) if gold & {(corpus, doc) for corpus, doc, *_ in p["spans"]}]
        if preflight and ranks:
            keys = (row["question_set"], row["method"], question.document)
            rows.append((*keys, bool(preflight["map_reduce"]), ranks[0] > TOP))
    return pd.DataFrame(rows, columns=["question_set", "method", "document", "foreseen", "below"])


def preflight_quality(cases: pd.DataFrame) -> list[dict[str, Any]]:
    """Return how well BriefContext's preflight predicts that the key document is ranked below the top.

    Args:
        cases: Result of `preflight_cases`.
    """
    rows = []
    for (question_set, method), part in cases.groupby(["question_set", "method"], sort=False):
        counts = Confusion.of(part["foreseen"].tolist(), part["below"].tolist())
        rows.append(
            {
                "question set": question_set,
                "method": method,
                "n": len(part),
                "documents": part["document"].nunique(),
                **{name: getattr(counts, name) for name in ("tp", "fp", "fn", "tn", "precision", "recall", "f1")},
            }
        )
    return rows
