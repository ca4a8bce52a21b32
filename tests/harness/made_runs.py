"""Runs of made-up methods, and their scores."""

from __future__ import annotations

import pandas as pd

from mog_assets.evaluate.measures import evaluate
from mog_assets.evaluate.scores import score
from mog_assets.questions.sets import Evidence, Question

RUN_COLUMNS = ["question_set", "split", "question", "method", "rank", "corpus", "doc", "start", "end"]
RUN_COLUMNS += ["tokens", "level", "score"]


def question(identity: str, *spans: tuple[str, str, int, int]) -> Question:
    return Question(identity, "?", "kind", "test", evidence=tuple(Evidence(*span) for span in spans))


def run_of(ranked: dict[tuple[str, str], list[tuple[str, str, int, int]]], question_set: str = "set") -> pd.DataFrame:
    """Runs from (method, question) to passages, best first."""
    rows = [
        (question_set, "test", identity, method, rank, *span, 10, 1, -float(rank))
        for (method, identity), spans in ranked.items()
        for rank, span in enumerate(spans, start=1)
    ]
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


KINDS = {
    "fixed-1": ("bm25", "fixed"),
    "fixed-2": ("bm25", "fixed"),
    "fused-paper-1": ("bm25", "fused-paper"),
    "mog-paper": ("bm25", "mog-paper"),
    "oracle-paper": ("bm25", "oracle-paper"),
    "hybrid:mog-paper": ("hybrid", "mog-paper"),
}


def made_scores(name: str = "set", questions: int = 40) -> pd.DataFrame:
    """Scores of runs where mog finds everything, level 2 most, level 1 some."""
    share = {
        "fixed-1": 200,
        "fixed-2": 500,
        "fused-paper-1": 600,
        "mog-paper": 1000,
        "oracle-paper": 1000,
        "hybrid:mog-paper": 900,
    }
    ranked = {
        (method, f"q{i}"): [("c", f"d{i}", 0, length - i)]
        for method, length in share.items()
        for i in range(questions)
        if (method, i) != ("fixed-1", 0)
    }
    members = [question(f"q{i}", ("c", f"d{i}", 0, 1000)) for i in range(questions)]
    return score(evaluate(run_of(ranked, name), {name: members}, 2), 2, 0, KINDS)
