"""How much each level and retriever counts in the rankings that weigh them, by corpus and by kind of question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from mog_assets.config import Settings
from mog_assets.evaluate.runs import RunTable
from mog_assets.questions.sets import Question
from mog_assets.registry import RUN_TABLES
from mog_assets.search import explain
from mog_assets.search.index import expert_names
from mog_assets.search.methods import Method
from mog_assets.search.retrieval import Retrieval

SHARES = "shares"
"""The file of the table is called so."""
# The mean of fewer questions says little.
FEWEST = 5
# Kinds of questions, and corpora, that a picture has room for.
MOST = 12
EVERY = "all test questions"
_RETRIEVERS = {"bm25": "BM25", "dense": "vectors"}
_KEYS = ("method", "by", "group", "n")


def groups_of(question: Question) -> list[tuple[str, str]]:
    """Return `kind` and `corpus` with the question's own; it may have evidence in several corpora."""
    corpora = dict.fromkeys(corpus for (corpus, _), grade in question.grades.items() if grade > 0)
    return [("kind", question.kind), *(("corpus", corpus) for corpus in corpora)]


def part_names(levels: int) -> list[str]:
    """Return parts of a weight: the levels of BM25, fine to coarse, those of vectors, and all other experts as one."""
    return [*(f"{name} level {level}" for name in _RETRIEVERS.values() for level in range(1, levels + 1)), "others"]


def parts(shares: np.ndarray, experts: Sequence[str], levels: int) -> np.ndarray:
    """Return share of each part, float32 of shape (questions, parts).

    Args:
        shares: Of each expert, see `explain.shares`.
        experts: Their names.
        levels: Number of levels.
    """
    named = [f"{name}-{level}" for name in _RETRIEVERS for level in range(1, levels + 1)]
    sums = np.zeros((len(shares), len(named) + 1), np.float32)
    for column, name in enumerate(experts):
        sums[:, named.index(name) if name in named else -1] += shares[:, column]
    return sums


def mean_shares(method: str, questions: Sequence[Question], shares: np.ndarray) -> list[tuple[str | int | float, ...]]:
    """Return rows of `table`: all questions, each corpus and each kind, the largest first.

    Args:
        method: What ranked.
        questions: The questions; one with evidence in two corpora counts in both.
        shares: Result of `parts` for them.
    """
    members: dict[tuple[str, str], list[int]] = {("", EVERY): list(range(len(questions)))}
    for row, question in enumerate(questions):
        for by, group in groups_of(question):
            # A question may have no kind.
            if group:
                members.setdefault((by, group), []).append(row)
    rows: list[tuple[str | int | float, ...]] = []
    for wanted in ("", "corpus", "kind"):
        groups = [(group, at) for (by, group), at in members.items() if by == wanted and len(at) >= FEWEST]
        for group, at in sorted(groups, key=lambda item: (-len(item[1]), item[0]))[:MOST]:
            rows.append((method, wanted, group, len(at), *shares[at].mean(axis=0, dtype=np.float64).tolist()))
    return rows


def table(rows: Iterable[tuple[str | int | float, ...]], levels: int) -> pd.DataFrame:
    """Return method, by (`corpus`, `kind`, or empty for all), group, n questions, and the mean share of each part."""
    return pd.DataFrame(list(rows), columns=[*_KEYS, *part_names(levels)])


def _rows(method: Method, questions: Sequence[Question], retrieval: Retrieval) -> list[tuple[str | int | float, ...]]:
    """Return rows of `table` for a method, if it weighs experts."""
    used, settings = retrieval.resolved(method), retrieval.corpora.settings
    weights = explain.shares(retrieval, used) if used.ranking else None
    if weights is None:
        return []
    return mean_shares(method.name, questions, parts(weights, expert_names(settings), settings.levels))


def _table(rows: Sequence[tuple[str | int | float, ...]], settings: Settings) -> pd.DataFrame:
    return table(rows, settings.levels)


RUN_TABLES.register(SHARES, RunTable(_rows, _table))
