"""Details of the report: main methods, groups of questions, the ranking whose weights are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from mog_assets.evaluate.measures import leading_measure
from mog_assets.evaluate.significance import bootstrap_interval, by_document
from mog_assets.plugins.report.shares import groups_of
from mog_assets.questions.sets import Question
from mog_assets.search.methods import AUTO, METHODS, rankings, unlimited, unplaced

MOST_METHODS = 7


def main_methods(scores: pd.DataFrame, most: int = MOST_METHODS) -> list[str]:
    """Return methods shown by default: the best of each kind, and the best fixed level, which they are compared with.

    Args:
        scores: Result of `scores.score` for one question set and split.
        most: Number of methods, ≥ 1.

    Returns:
        Names, the best by the leading measure first, the best fixed level last; without controls and methods that use
        gold evidence.
    """
    measure = leading_measure(set(scores["measure"]))
    leading = scores[(scores["measure"] == measure) & ~scores["kind"].map(unlimited).isin(unplaced())]
    leading = leading.sort_values("value", ascending=False, kind="stable")
    best = leading.drop_duplicates("kind")
    place = {kind: i for i, kind in enumerate(METHODS)}
    wanted = best.assign(place=best["kind"].map(lambda kind: place.get(kind, len(place))))
    fixed = best.loc[best["kind"] == "fixed", "method"].tolist()
    chosen = set([*fixed, *(m for m in wanted.sort_values("place", kind="stable")["method"] if m not in fixed)][:most])
    return sorted((name for name in leading["method"] if name in chosen), key=lambda name: name in fixed)


def by_group(
    per_question: pd.DataFrame,
    questions: Iterable[Question],
    methods: Sequence[str],
    measures: Sequence[str],
    seed: int,
) -> pd.DataFrame:
    """Return means per kind of question and per corpus of the gold evidence.

    Args:
        per_question: Result of `measures.evaluate` for one question set and split.
        questions: Questions of that question set.
        methods: Methods to show.
        measures: Measures to show.
        seed: Seed of the resamples.

    Returns:
        A row per group, method and measure: by (`kind` or `corpus`), group, n questions, number of documents, method,
        measure, value with its 95 % bootstrap interval low … high over documents, NaN for a single document. A question
        with evidence in two corpora counts in both.
    """
    by_id = {q.id: q for q in questions}
    here = per_question[per_question["method"].isin(methods)]
    cells = here.set_index(["question", "method"])[list(measures)].unstack("method")
    members: dict[tuple[str, str], list[int]] = {}
    for row, identity in enumerate(cells.index):
        for group_key in groups_of(by_id[identity]):
            members.setdefault(group_key, []).append(row)
    columns = [(measure, method) for measure in measures for method in methods]
    values = np.stack([cells[column].to_numpy(np.float64) for column in columns], axis=1) if len(cells) else None
    documents = here.drop_duplicates("question").set_index("question")["document"].loc[cells.index].to_numpy(str)
    rows = []
    for (by, group), at in sorted(members.items(), key=lambda item: (item[0][0] == "corpus", -len(item[1]), item[0])):
        assert values is not None
        totals = by_document(values[at], documents[at])
        low, high = bootstrap_interval(totals, seed=seed)
        counts = (len(at), len(totals.sizes))
        for i, ((measure, method), value) in enumerate(zip(columns, totals.mean, strict=True)):
            rows.append((by, group, *counts, method, measure, value, low[i], high[i]))
    return pd.DataFrame(rows, columns=["by", "group", "n", "documents", "method", "measure", "value", "low", "high"])


def of_one(shares: pd.DataFrame, chosen: str) -> pd.DataFrame:
    """Return rows of the ranking that `auto` stands for, or of `fused` if that one weighs nothing, without its name.

    Args:
        shares: Result of `shares.table`.
        chosen: What `auto` stands for.

    Returns:
        Rows of one ranking, `attrs["method"]`; of any that there is if both were not run.
    """
    present = set(shares["method"])
    method = next((name for name in (chosen, AUTO, "fused", *rankings()) if name in present), "")
    rows = shares[shares["method"] == method].drop(columns="method").reset_index(drop=True)
    rows.attrs["method"] = method
    return rows
