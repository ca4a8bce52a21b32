"""Contexts whose partitions give different answers, and what map-reduce makes of them (BriefContext, section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer.reader.calibration import RIGHT
from mog_assets.evaluate.scores import interval, p_said, p_text
from mog_assets.evaluate.significance import bootstrap_interval, by_document, detectable, holm, permutation_p
from mog_assets.papers.briefcontext.answerer import PARTITIONS, split
from mog_assets.papers.briefcontext.experiments.briefcontext import (
    BOTH,
    CELL,
    ONE,
    POSITIONS,
    by_position,
    unmeasured,
    varied,
)
from mog_assets.papers.experiments.answers import of_model, without
from mog_assets.papers.experiments.conclusions import untestable
from mog_assets.papers.experiments.contexts import Case, Find, by_set, candidates, context, depends_on, read_by_contexts
from mog_assets.papers.experiments.lab import (
    ALPHA,
    MARGIN,
    Claim,
    Experiment,
    Findings,
    Lab,
    Verdict,
    about,
    registered,
)
from mog_assets.questions.marks import f1, normalised
from mog_assets.questions.sets import Question

# Share of resolved conflicts (BriefContext, section 1).
_RESOLVED = 0.747

_PAPERS = {
    "resolved": (
        "BriefContext, section 2.3, figure 4",
        f"The reduce resolves most conflicts between partitions (there {_RESOLVED:.1%}).",
    ),
    "won": (
        "BriefContext, section 2.3, supplementary table 2",
        "Where partitions disagree, map-reduce is right and one prompt wrong more often than the other way.",
    ),
}


def conflicts(lab: Lab) -> Findings:
    """Return contexts whose partitions give different answers, and how often the reduce resolves the conflict.

    Open answers differ, or are wrong, if they share less than half of their words.
    """
    (sizes, _), tables, claims = varied(lab), {}, []

    def ask(name: str, questions: Sequence[Question], find: Find) -> list[pd.DataFrame]:
        return [partitions(lab, name, find, top_k, max(sizes)) for top_k in sizes]

    by_name, used = by_set(lab, max(sizes), ask)
    for name, results in by_name.items():
        alone = about(pd.concat(results, ignore_index=True), candidates(lab)[name])
        marks = _answers_by_position(lab)
        both = marks[marks["question_set"] == name].pivot(
            index=["question", "top_k", "position"], columns="way", values="right"
        )
        # Only questions whose contexts were answered and partitioned are in both; the contexts are equal.
        answers = alone.join(both, on=["question", "top_k", "position"], validate="one_to_one")
        rows = conflict_rows(answers[answers["conflict"]], lab.seed)
        for row in rows:
            row["of"] = int(_group(alone, row["top_k"], row["position"]).sum())
        tables[f"{name}: contexts whose partitions disagree"] = without(rows, "low", "high", "gain high", "p value")
        claims += _conflict_claims(lab, name, rows[-1])
    if not by_name:
        claims = unmeasured(list(_PAPERS.values()), used)
    return Findings(tables={"questions": used, **tables}, claims=claims)


def _conflict_claims(lab: Lab, name: str, row: Mapping[str, Any]) -> list[Claim]:
    if not row["conflicts"]:
        return [untestable(*_PAPERS[key], f"{name}: no partitions disagree") for key in _PAPERS]
    least = "" if np.isnan(row["detectable"]) else f"; the smallest detectable difference is {row['detectable']:.3f}"
    return [
        of_model(
            lab,
            *_PAPERS["resolved"],
            "seen" if row["low"] > 0.5 else "not seen" if row["high"] < 0.5 else "undecided",
            f"{name}: {row['resolved']:,} of {row['conflicts']:,} conflicts, {row['share']}",
        ),
        of_model(
            lab,
            *_PAPERS["won"],
            _won(row),
            f"{name}: {row['win']:,} won, {row['tie']:,} tied, {row['lose']:,} lost; "
            f"{p_said(row['p value'])}{'' if row['p value'] < ALPHA else least}",
        ),
    ]


def _won(row: Mapping[str, Any]) -> Verdict:
    if row["p value"] < ALPHA:
        return "seen" if row["win"] > row["lose"] else "not seen"
    return "not seen" if row["gain high"] < MARGIN else "undecided"


def _group(table: pd.DataFrame, top_k: Any, position: Any) -> pd.Series:
    """Return mask of the rows of a size and position; `all` means every one."""
    mask = pd.Series(True, table.index)
    for column, value in (("top_k", top_k), ("position", position)):
        if value != "all":
            mask &= table[column] == value
    return mask


def _answers_by_position(lab: Lab) -> pd.DataFrame:
    """Return answers of the experiment on positions: its cells, with columns top_k, position, way, right."""
    artefact, (sizes, positions) = lab.read(f"experiments/{POSITIONS}", None), varied(lab)
    cells = pd.concat([pd.read_parquet(artefact.path(name)) for name in artefact.names() if CELL in name])
    parts = cells["method"].str.split(" ", n=3, expand=True)
    options = {q.id for questions in candidates(lab).values() for q in questions if q.options}
    right = np.where(cells["question"].isin(options), cells["exact match"], cells["F1"] >= RIGHT)
    cells = cells.assign(top_k=parts[1].astype(int), position=parts[2].astype(int), way=parts[3], right=right)
    return cells[cells["top_k"].isin(sizes) & cells["position"].isin(positions)]


def partitions(lab: Lab, name: str, find: Find, top_k: int, size: int) -> pd.DataFrame:
    """Return whether the single partitions of a question's contexts give different answers.

    Most partitions are shared by contexts that differ only in the position of the key document; each is asked once.

    Args:
        lab: The lab.
        name: Name of the question set.
        find: Its cases.
        top_k: Size of the contexts.
        size: Size of the largest context.

    Returns:
        A row per question and position: question, top_k, position, conflict, and partitions without an answer.
    """
    (_, positions), roles = varied(lab), lab.reader()

    def make() -> pd.DataFrame:
        rows = []
        rows_of = find()
        with lab.progress(len(rows_of), f"{name}, top {top_k}: questions answered from partitions") as advance:
            for case in rows_of:
                rows += disagreements(case)
                advance(1)
        return pd.DataFrame(rows)

    def disagreements(case: Case) -> list[dict[str, Any]]:
        divided = {p: [tuple(part) for part in split(context(case, top_k, p), PARTITIONS)] for p in positions}
        distinct = list(dict.fromkeys(part for parts in divided.values() for part in parts))
        replies = lab.each(lambda part: roles.answer(case.request, part), distinct)
        answers = {part: reply.value for part, reply in zip(distinct, replies, strict=True)}
        return [
            {
                "question": case.question.id,
                "top_k": top_k,
                "position": p,
                "conflict": differ([text for part in parts if (text := answers[part]) is not None], case.question),
                "partitions without an answer": sum(answers[part] is None for part in parts),
            }
            for p, parts in divided.items()
        ]

    key = [*depends_on(lab, name, size), top_k, positions, PARTITIONS]
    return lab.cached(f"{name} partitions of {top_k}", key, make)


def differ(answers: Sequence[str], question: Question) -> bool:
    """Return whether some of the answers to a question say something else than others; see `conflicts`."""
    if question.options:
        return len({normalised(text) for text in answers}) > 1
    return any(f1(one, [other]) < RIGHT for one, other in combinations(answers, 2))


def conflict_rows(replies_of: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """Return outcomes of conflicts: by size and position of the key document, then in total.

    Args:
        replies_of: A row per conflict: question, document (what the question is about), top_k, position, and 1 or 0 in
            the columns of both methods for right or wrong.
        seed: Seed of resamples and signs.

    Returns:
        Rows with numbers of `conflicts` and `documents`, `resolved` (answered correctly by the map-reduce), their share
        with a 95 % interval, win, tie, lose of the map-reduce against one prompt, and p of win against lose by a
        permutation test, Holm-corrected over positions. Both are over documents: a question may have a conflict at
        several positions. `low` and `high` are the ends of the share's interval, `gain high` the upper one of the mean
        difference. `detectable` is the smallest detectable mean difference of a conflict; NaN if there are too
        few documents, or none differs.
    """
    cells = [
        (top_k, position, replies_of[(replies_of["top_k"] == top_k) & (replies_of["position"] == position)])
        for top_k in sorted(set(replies_of["top_k"]))
        for position in sorted(set(replies_of["position"]))
    ]
    rows = []
    for top_k, position, part in [*cells, ("all", "all", replies_of)]:
        right, before = (part[BOTH] > 0).to_numpy(float), (part[ONE] > 0).to_numpy(float)
        win, lose = int((right > before).sum()), int((right < before).sum())
        totals = by_document(np.stack([right, right - before], axis=1), part["document"].to_numpy(str))
        resolved, changed = totals.columns(np.array([0])), totals.columns(np.array([1]))
        (low,), (high,) = bootstrap_interval(resolved, seed=seed)
        _, (gain_high,) = bootstrap_interval(changed, seed=seed)
        rows.append(
            {
                "top_k": top_k,
                "position": position,
                "of": len(part),
                "conflicts": len(part),
                "documents": len(totals.sizes),
                "resolved": int(right.sum()),
                "share": interval(right.mean(), low, high) if len(part) else "",
                "low": float(low),
                "high": float(high),
                "gain high": float(gain_high),
                "win": win,
                "tie": len(part) - win - lose,
                "lose": lose,
                "p value": float(permutation_p(changed, seed=seed)[0]),
                "detectable": float(detectable(changed, ALPHA)[0]),
            }
        )
    corrected = holm(np.array([row["p value"] for row in rows[:-1]]))
    for row, p in zip(rows, [*corrected, rows[-1]["p value"]], strict=True):
        row |= {"p value": float(p), "p": p_text(p)}
    return rows


registered(
    Experiment(
        "conflicts",
        "Conflicts between partitions",
        "The same contexts if their single partitions give different answers (open ones that share less than half of "
        "their words): how many the map-reduce answers correctly, and wins, ties and losses against one prompt "
        "(BriefContext, section 2.3, figure 4, supplementary table 2).",
        conflicts,
        lambda settings: (*read_by_contexts(settings), f"experiments/{POSITIONS}"),
        by_position,
        version="5",
    ),
)
