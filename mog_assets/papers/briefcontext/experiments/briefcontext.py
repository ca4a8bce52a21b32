"""BriefContext's controlled studies: position of the key document, number and kind of the other documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from mog_assets.answer.answerers import one_step
from mog_assets.config import Settings
from mog_assets.papers.briefcontext.answerer import briefcontext
from mog_assets.papers.experiments.answers import accuracy_measures, differences, of_model, paired_rows
from mog_assets.papers.experiments.conclusions import every, joined, turned, untestable
from mog_assets.papers.experiments.contexts import (
    Case,
    Find,
    Way,
    answered,
    by_set,
    candidates,
    context,
    depends_on,
    generator,
    options,
    read_by_contexts,
)
from mog_assets.papers.experiments.lab import (
    Claim,
    Experiment,
    Findings,
    Lab,
    difference_text,
    greater,
    registered,
    score_row,
    score_rows,
)
from mog_assets.papers.experiments.settings import EXPERIMENT_SETTINGS
from mog_assets.questions.sets import Question

ONE, BOTH = "one prompt", "map-reduce"
_WAYS: Mapping[str, Way] = {ONE: one_step, BOTH: partial(briefcontext, preflight=False)}
POSITIONS = "key-position"
# Prefix of the names of cells whose answers the experiment on conflicts reads.
CELL = "context"
_MIDDLE = 50

_PAPERS = {
    "mean": (
        "BriefContext, section 2.2, figure 2",
        "Map-reduce answers more accurately than one prompt, averaged over positions of the key document.",
    ),
    "middle": (
        "BriefContext, section 2.2, supplementary table 1",
        "One prompt answers less accurately with the key document between the ends of the context.",
    ),
    "documents": (
        "BriefContext, section 2.4, figure 5",
        "With the same key document in the context, accuracy decreases as the number of documents increases.",
    ),
    "distractors": (
        "BriefContext, section 2.6, figure 6",
        "Accuracy is higher with the key document among random documents than among retrieved ones.",
    ),
}


def varied(lab: Lab) -> tuple[list[int], list[int]]:
    """Return sizes of contexts and positions of the key document, each once."""
    chosen = EXPERIMENT_SETTINGS.of(lab.settings)
    return list(dict.fromkeys(chosen.top_k)), list(dict.fromkeys(chosen.positions))


def unmeasured(papers: Sequence[tuple[str, str]], used: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Return claims that cannot be tested on any question set, with the reasons.

    Args:
        papers: Paper and claim.
        used: A row per question set, see `contexts.by_set`.
    """
    because = "; ".join(f"{row['question set']}: {row['why none']}" for row in used)
    return [untestable(*paper, because) for paper in papers]


def key_position(lab: Lab) -> Findings:
    """Return the key document at several positions of contexts of several sizes, one prompt against map-reduce."""
    sizes, positions = varied(lab)
    size, tables, claims = max(sizes), [], []
    cases = [(k, p, way) for k in sizes for p in positions for way in _WAYS]

    def ask(name: str, questions: Sequence[Question], find: Find) -> list[pd.DataFrame]:
        return [_position(lab, name, find, *one, size) for one in cases]

    by_name, used = by_set(lab, size, ask)
    for name, results in by_name.items():
        measures = accuracy_measures(candidates(lab)[name])
        cells = dict(zip(cases, results, strict=True))
        pairs = [(cells[k, p, ONE], cells[k, p, BOTH]) for k in sizes for p in positions]
        for k in sizes:
            mean = {way: _mean([cells[k, p, way] for p in positions], f"top {k}, mean, {way}") for way in _WAYS}
            pairs.append((mean[ONE], mean[BOTH]))
        ends, between = _ends(positions)
        for k in sizes if between else ():
            outside = _mean([cells[k, p, ONE] for p in ends], f"top {k}, first and last, {ONE}")
            inside = _mean([cells[k, p, ONE] for p in between], f"top {k}, between, {ONE}")
            pairs.append((outside, inside))
        table = paired_rows(name, pairs, measures, lab.seed)
        tables.append(table)
        claims += _position_claims(lab, name, table, measures[0])
    if not by_name:
        claims = unmeasured([_PAPERS["mean"], _PAPERS["middle"]], used)
    return Findings(joined(tables), {"questions": used}, claims)


def _position(lab: Lab, name: str, find: Any, top_k: int, percentile: int, way: str, size: int) -> pd.DataFrame:
    answers = answered(
        lab,
        name,
        f"{CELL} {top_k} {percentile} {way}",
        [*depends_on(lab, name, size), top_k, percentile],
        _WAYS[way],
        lambda: [(case, context(case, top_k, percentile)) for case in find()],
    )
    return answers.assign(cell=f"top {top_k}, {percentile} %, {way}")


def _mean(cells: Sequence[pd.DataFrame], cell: str) -> pd.DataFrame:
    """Return means over cells, per question."""
    means = ["exact match", "F1", "answered"]
    return pd.concat(cells).groupby(["question", "document"], sort=False)[means].mean().reset_index().assign(cell=cell)


def _ends(positions: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the first and last positions, and those between them."""
    ends = {min(positions), max(positions)}
    return sorted(ends), [p for p in positions if p not in ends]


def _position_claims(lab: Lab, name: str, table: pd.DataFrame, measure: str) -> list[Claim]:
    here = table[(table["measure"] == measure) & table["p"].notna()]
    middle = here[here["cell"].str.endswith(f"between, {ONE}")]
    means = here[here["cell"].str.endswith(f"mean, {BOTH}")]
    claims = [
        of_model(
            lab,
            *_PAPERS["mean"],
            every(greater(row) for _, row in means.iterrows()),
            f"{name}, {measure} against one prompt: {differences(means)}",
        )
    ]
    if len(middle):
        claims.append(
            of_model(
                lab,
                *_PAPERS["middle"],
                every(greater(turned(row)) for _, row in middle.iterrows()),
                f"{name}, {measure} between the ends against first and last: {differences(middle)}",
            )
        )
    return claims


def documents(lab: Lab) -> Findings:
    """Return the key document among an increasing number of others, in one prompt."""
    sizes = sorted(set(EXPERIMENT_SETTINGS.of(lab.settings).documents))
    positions = list(dict.fromkeys(EXPERIMENT_SETTINGS.of(lab.settings).positions))
    tables, claims = [], []

    def ask(name: str, questions: Sequence[Question], find: Find) -> list[pd.DataFrame]:
        def contexts(size: int) -> list[tuple[Case, list[Any]]]:
            return [(case, context(case, size, _percentile(lab, case.question))) for case in find()]

        return [
            answered(
                lab,
                name,
                f"{size} documents",
                [*depends_on(lab, name, sizes[-1]), size, positions],
                one_step,
                partial(contexts, size),
            ).assign(cell=_documents(size))
            for size in sizes
        ]

    by_name, used = by_set(lab, sizes[-1], ask)
    for name, cells in by_name.items():
        measures = accuracy_measures(candidates(lab)[name])
        table = score_rows(name, cells, measures, _documents(sizes[0]), lab.seed)
        tables.append(table)
        if len(sizes) < 2:
            claims.append(untestable(*_PAPERS["documents"], "experiments.documents: one number of documents only"))
            continue
        last = score_row(table, name, _documents(sizes[-1]), measures[0])
        claims.append(
            of_model(
                lab,
                *_PAPERS["documents"],
                greater(turned(last)),
                f"{name}, {measures[0]} against {_documents(sizes[0])}: "
                + differences(table[table["measure"] == measures[0]]),
            )
        )
    if not by_name:
        claims = unmeasured([_PAPERS["documents"]], used)
    return Findings(joined(tables), {"questions": used}, claims)


def _documents(size: int) -> str:
    return f"{size} document" + ("s" if size > 1 else "")


def _percentile(lab: Lab, question: Question) -> int:
    """Return a random position of a question's key document: the paper's mean over positions at the cost of one."""
    return int(generator(lab.seed, question.id).choice(varied(lab)[1]))


def distractors(lab: Lab) -> Findings:
    """Return the key document in the middle of retrieved or of random passages, in one prompt."""
    size, tables, claims = max(EXPERIMENT_SETTINGS.of(lab.settings).top_k), [], []

    def ask(name: str, questions: Sequence[Question], find: Find) -> list[pd.DataFrame]:
        def contexts(unlike: bool) -> list[tuple[Case, list[Any]]]:
            return [(case, context(case, size, _MIDDLE, unlike)) for case in find()]

        return [
            answered(
                lab, name, f"{cell} distractors", depends_on(lab, name, size), one_step, partial(contexts, unlike)
            ).assign(cell=cell)
            for cell, unlike in (("relevant", False), ("random", True))
        ]

    by_name, used = by_set(lab, size, ask)
    for name, cells in by_name.items():
        measures = accuracy_measures(candidates(lab)[name])
        tables.append(score_rows(name, cells, measures, "relevant", lab.seed))
        row = score_row(tables[-1], name, "random", measures[0])
        claims.append(
            of_model(
                lab,
                *_PAPERS["distractors"],
                greater(row),
                f"{name}, {measures[0]}, top {size}: {difference_text(row)}",
            )
        )
    if not by_name:
        claims = unmeasured([_PAPERS["distractors"]], used)
    return Findings(joined(tables), {"questions": used}, claims=claims)


def by_position(settings: Settings) -> list[Any]:
    """Return the settings that answers at several positions depend on."""
    return [*options(settings), EXPERIMENT_SETTINGS.of(settings).top_k, EXPERIMENT_SETTINGS.of(settings).positions]


registered(
    Experiment(
        POSITIONS,
        "Position of the key document",
        "Accuracy with the key document at several percentiles of contexts of top_k passages, the others retrieved; "
        "one prompt against map-reduce without preflight (BriefContext, section 2.2, figure 2, supplementary table 1).",
        key_position,
        read_by_contexts,
        by_position,
        version="3",
    ),
    Experiment(
        "documents",
        "Number of documents",
        "Accuracy of one prompt with the key document among an increasing number of retrieved ones, at a random "
        "position for each question (BriefContext, section 2.4, figure 5).",
        documents,
        read_by_contexts,
        lambda settings: [
            *options(settings),
            EXPERIMENT_SETTINGS.of(settings).documents,
            EXPERIMENT_SETTINGS.of(settings).positions,
        ],
        version="3",
    ),
    Experiment(
        "distractors",
        "Relevant and random distractors",
        "Accuracy of one prompt with the key document in the middle of the largest top_k, among retrieved or "
        "random passages (BriefContext, section 2.6, figure 6).",
        distractors,
        read_by_contexts,
        lambda settings: [*options(settings), EXPERIMENT_SETTINGS.of(settings).top_k],
        version="3",
    ),
)
