"""BriefContext's controlled studies: position of the key document, number and kind of the other documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations as pairs_of
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answering.answerers import PARTITIONS, briefcontext, one_step, split
from mog_assets.answering.notation import combinations
from mog_assets.answering.preflight import TOP, Confusion
from mog_assets.config import Settings
from mog_assets.evaluation.answers import preflight_cases
from mog_assets.evaluation.scores import interval, on_documents, p_said, p_text
from mog_assets.experiments.answers import (
    Answered,
    accuracy_measures,
    differences,
    of_answers,
    of_model,
    paired_rows,
    without,
)
from mog_assets.experiments.conclusions import every, joined, turned, untestable
from mog_assets.experiments.contexts import (
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
from mog_assets.experiments.lab import (
    ALPHA,
    MARGIN,
    Claim,
    Experiment,
    Findings,
    Lab,
    Verdict,
    about,
    difference_text,
    greater,
    score_rows,
    told,
)
from mog_assets.experiments.plots import curves
from mog_assets.questions.marks import f1, normalised
from mog_assets.questions.sets import Question
from mog_assets.reader.calibration import RIGHT
from mog_assets.significance import (
    RESAMPLES,
    bootstrap_interval,
    by_document,
    detectable,
    ends,
    holm,
    permutation_p,
    resampled_means,
    share_interval,
)

ONE, BOTH = "one prompt", "map-reduce"
_WAYS: Mapping[str, Way] = {ONE: one_step, BOTH: partial(briefcontext, preflight=False)}
POSITIONS = "key-position"
# Prefix of the names of cells whose answers the experiment on conflicts reads.
_CELL = "context"
_MIDDLE = 50
# F1 from which two open answers are the same.
_SAME = RIGHT
# BriefContext, supplementary table 4, and the share of resolved conflicts (section 1).
_PAPER = Confusion(426, 423, 34, 235)
_RESOLVED = 0.747


_PAPERS = {
    "mean": (
        "BriefContext, section 2.2, figure 2",
        "Map-reduce answers more accurately than one prompt, averaged over positions of the key document.",
    ),
    "middle": (
        "BriefContext, section 2.2, supplementary table 1",
        "One prompt answers less accurately with the key document between the ends of the context.",
    ),
    "resolved": (
        "BriefContext, section 2.3, figure 4",
        f"The reduce resolves most conflicts between partitions (there {_RESOLVED:.1%}).",
    ),
    "won": (
        "BriefContext, section 2.3, supplementary table 2",
        "Where partitions disagree, map-reduce is right and one prompt wrong more often than the other way.",
    ),
    "foresees": (
        "BriefContext, section 2.5, supplementary table 4",
        "The preflight predicts most cases of a key document below the top 3 (there 92.6 %).",
    ),
    "asks": (
        "BriefContext, section 2.5",
        "Agreement of two rankings indicates the rank of the key document: the preflight asks for the map-reduce more "
        "often if it is below the top 3.",
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


def _varied(lab: Lab) -> tuple[list[int], list[int]]:
    """Sizes of contexts and positions of the key document, each once."""
    chosen = lab.settings.experiments
    return list(dict.fromkeys(chosen.top_k)), list(dict.fromkeys(chosen.positions))


def _untestable(names: Sequence[str], used: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Claims that cannot be tested on any question set, with the reasons."""
    because = "; ".join(f"{row['question set']}: {row['why none']}" for row in used)
    return [untestable(*_PAPERS[name], because) for name in names]


def key_position(lab: Lab) -> Findings:
    """The key document at several positions of contexts of several sizes, one prompt against map-reduce."""
    sizes, positions = _varied(lab)
    size, tables, plots, claims = max(sizes), [], {}, []
    varied = [(k, p, way) for k in sizes for p in positions for way in _WAYS]

    def ask(name: str, questions: Sequence[Question], find: Find) -> list[pd.DataFrame]:
        return [_position(lab, name, find, *one, size) for one in varied]

    found, used = by_set(lab, size, ask)
    for name, made in found.items():
        measures = accuracy_measures(candidates(lab)[name])
        cells = dict(zip(varied, made, strict=True))
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
        plots[f"{name}: accuracy by position of the key document"] = curves(
            {
                f"top {k}, {way}": _rows(table, [f"top {k}, {p} %, {way}" for p in positions], measures[0], positions)
                for k in sizes
                for way in _WAYS
            },
            "position of the key document, percentile",
            measures[0],
            f"{name}: accuracy with the key document in the context",
            sorted(positions),
        )
        claims += _position_claims(lab, name, table, measures[0])
    if not found:
        claims = _untestable(["mean", "middle"], used)
    return Findings(joined(tables), {"questions": used}, plots, claims)


def _position(lab: Lab, name: str, find: Any, top_k: int, percentile: int, way: str, size: int) -> pd.DataFrame:
    found = answered(
        lab,
        name,
        f"{_CELL} {top_k} {percentile} {way}",
        [*depends_on(lab, name, size), top_k, percentile],
        _WAYS[way],
        lambda: [(case, context(case, top_k, percentile)) for case in find()],
    )
    return found.assign(cell=f"top {top_k}, {percentile} %, {way}")


def _mean(cells: Sequence[pd.DataFrame], cell: str) -> pd.DataFrame:
    """Means over cells, per question."""
    means = ["exact match", "F1", "answered"]
    return pd.concat(cells).groupby(["question", "document"], sort=False)[means].mean().reset_index().assign(cell=cell)


def _ends(positions: Sequence[int]) -> tuple[list[int], list[int]]:
    """The first and last positions, and those between them."""
    ends = {min(positions), max(positions)}
    return sorted(ends), [p for p in positions if p not in ends]


def _rows(table: pd.DataFrame, cells: Sequence[str], measure: str, varied: Sequence[int]) -> pd.DataFrame:
    """Rows of some cells with the varied value as x, in the order of x."""
    return table[table["measure"] == measure].set_index("cell").loc[list(cells)].assign(x=varied).sort_values("x")


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


def conflicts(lab: Lab) -> Findings:
    """Contexts whose partitions give different answers, and how often the reduce resolves the conflict.

    Open answers differ, or are wrong, if they share less than half of their words.
    """
    (sizes, _), tables, claims = _varied(lab), {}, []

    def ask(name: str, questions: Sequence[Question], find: Find) -> list[pd.DataFrame]:
        return [partitions(lab, name, find, top_k, max(sizes)) for top_k in sizes]

    found, used = by_set(lab, max(sizes), ask)
    for name, made in found.items():
        alone = about(pd.concat(made, ignore_index=True), candidates(lab)[name])
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
    if not found:
        claims = _untestable(["resolved", "won"], used)
    return Findings(tables={"questions": used, **tables}, claims=claims)


def _conflict_claims(lab: Lab, name: str, whole: Mapping[str, Any]) -> list[Claim]:
    if not whole["conflicts"]:
        return [untestable(*_PAPERS[key], f"{name}: no partitions disagree") for key in ("resolved", "won")]
    least = (
        "" if np.isnan(whole["detectable"]) else f"; the smallest detectable difference is {whole['detectable']:.3f}"
    )
    return [
        of_model(
            lab,
            *_PAPERS["resolved"],
            "seen" if whole["low"] > 0.5 else "not seen" if whole["high"] < 0.5 else "undecided",
            f"{name}: {whole['resolved']:,} of {whole['conflicts']:,} conflicts, {whole['share']}",
        ),
        of_model(
            lab,
            *_PAPERS["won"],
            _won(whole),
            f"{name}: {whole['win']:,} won, {whole['tie']:,} tied, {whole['lose']:,} lost; "
            f"{p_said(whole['p value'])}{'' if whole['p value'] < ALPHA else least}",
        ),
    ]


def _won(whole: Mapping[str, Any]) -> Verdict:
    if whole["p value"] < ALPHA:
        return "seen" if whole["win"] > whole["lose"] else "not seen"
    return "not seen" if whole["gain high"] < MARGIN else "undecided"


def _group(table: pd.DataFrame, top_k: Any, position: Any) -> pd.Series:
    """Mask of the rows of a size and position; `all` means every one."""
    mask = pd.Series(True, table.index)
    for column, value in (("top_k", top_k), ("position", position)):
        if value != "all":
            mask &= table[column] == value
    return mask


def _answers_by_position(lab: Lab) -> pd.DataFrame:
    """Answers of the experiment on positions: its cells, with columns top_k, position, way, right."""
    artefact, (sizes, positions) = lab.read(f"experiments/{POSITIONS}", None), _varied(lab)
    found = pd.concat([pd.read_parquet(artefact.path(name)) for name in artefact.names() if _CELL in name])
    parts = found["method"].str.split(" ", n=3, expand=True)
    options = {q.id for questions in candidates(lab).values() for q in questions if q.options}
    right = np.where(found["question"].isin(options), found["exact match"], found["F1"] >= _SAME)
    found = found.assign(top_k=parts[1].astype(int), position=parts[2].astype(int), way=parts[3], right=right)
    return found[found["top_k"].isin(sizes) & found["position"].isin(positions)]


def partitions(lab: Lab, name: str, find: Find, top_k: int, size: int) -> pd.DataFrame:
    """Whether the single partitions of a question's contexts give different answers.

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
    (_, positions), roles = _varied(lab), lab.reader()

    def make() -> pd.DataFrame:
        rows = []
        found = find()
        with lab.progress(len(found), f"{name}, top {top_k}: questions answered from partitions") as advance:
            for case in found:
                rows += disagreements(case)
                advance(1)
        return pd.DataFrame(rows)

    def disagreements(case: Case) -> list[dict[str, Any]]:
        divided = {p: [tuple(part) for part in split(context(case, top_k, p), PARTITIONS)] for p in positions}
        distinct = list(dict.fromkeys(part for parts in divided.values() for part in parts))
        replies = lab.each(lambda part: roles.answer(case.asked, part), distinct)
        said = {part: reply.value for part, reply in zip(distinct, replies, strict=True)}
        return [
            {
                "question": case.question.id,
                "top_k": top_k,
                "position": p,
                "conflict": differ([text for part in parts if (text := said[part]) is not None], case.question),
                "partitions without an answer": sum(said[part] is None for part in parts),
            }
            for p, parts in divided.items()
        ]

    key = [*depends_on(lab, name, size), top_k, positions, PARTITIONS]
    return lab.cached(f"{name} partitions of {top_k}", key, make)


def differ(said: Sequence[str], question: Question) -> bool:
    """Whether some of the answers to a question say something else than others."""
    if question.options:
        return len({normalised(text) for text in said}) > 1
    return any(f1(one, [other]) < _SAME for one, other in pairs_of(said, 2))


def conflict_rows(found: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """Outcomes of conflicts: by size and position of the key document, then in total.

    Args:
        found: A row per conflict: question, document (what the question is about), top_k, position, and 1 or 0 in the
            columns of both methods for right or wrong.
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
        (top_k, position, found[(found["top_k"] == top_k) & (found["position"] == position)])
        for top_k in sorted(set(found["top_k"]))
        for position in sorted(set(found["position"]))
    ]
    rows = []
    for top_k, position, part in [*cells, ("all", "all", found)]:
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


def documents(lab: Lab) -> Findings:
    """The key document among an increasing number of others, in one prompt."""
    sizes, (_, positions) = sorted(set(lab.settings.experiments.documents)), _varied(lab)
    tables, plots, claims = [], {}, []

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

    found, used = by_set(lab, sizes[-1], ask)
    for name, cells in found.items():
        measures = accuracy_measures(candidates(lab)[name])
        table = score_rows(name, cells, measures, _documents(sizes[0]), lab.seed)
        tables.append(table)
        rows = _rows(table, [_documents(size) for size in sizes], measures[0], sizes)
        plots[f"{name}: accuracy by number of documents"] = curves(
            {ONE: rows}, "documents in the context, the key document among them", measures[0], name, sizes
        )
        if len(sizes) < 2:
            claims.append(untestable(*_PAPERS["documents"], "experiments.documents: one number of documents only"))
            continue
        last = told(table, name, _documents(sizes[-1]), measures[0])
        claims.append(
            of_model(
                lab,
                *_PAPERS["documents"],
                greater(turned(last)),
                f"{name}, {measures[0]} against {_documents(sizes[0])}: "
                + differences(table[table["measure"] == measures[0]]),
            )
        )
    if not found:
        claims = _untestable(["documents"], used)
    return Findings(joined(tables), {"questions": used}, plots, claims)


def _documents(size: int) -> str:
    return f"{size} document" + ("s" if size > 1 else "")


def _percentile(lab: Lab, question: Question) -> int:
    """A random position of a question's key document: the paper's mean over positions at the cost of one."""
    return int(generator(lab.seed, question.id).choice(_varied(lab)[1]))


def distractors(lab: Lab) -> Findings:
    """The key document in the middle of retrieved or of random passages, in one prompt."""
    size, tables, claims = max(lab.settings.experiments.top_k), [], []

    def ask(name: str, questions: Sequence[Question], find: Find) -> list[pd.DataFrame]:
        def contexts(unlike: bool) -> list[tuple[Case, list[Any]]]:
            return [(case, context(case, size, _MIDDLE, unlike)) for case in find()]

        return [
            answered(
                lab, name, f"{cell} distractors", depends_on(lab, name, size), one_step, partial(contexts, unlike)
            ).assign(cell=cell)
            for cell, unlike in (("relevant", False), ("random", True))
        ]

    found, used = by_set(lab, size, ask)
    for name, cells in found.items():
        measures = accuracy_measures(candidates(lab)[name])
        tables.append(score_rows(name, cells, measures, "relevant", lab.seed))
        row = told(tables[-1], name, "random", measures[0])
        claims.append(
            of_model(
                lab,
                *_PAPERS["distractors"],
                greater(row),
                f"{name}, {measures[0]}, top {size}: {difference_text(row)}",
            )
        )
    if not found:
        claims = _untestable(["distractors"], used)
    return Findings(joined(tables), {"questions": used}, claims=claims)


def preflight(lab: Lab) -> Findings:
    """How well the preflight of the stored map-reduces predicts that the key document is ranked below the top."""
    stored, tables, claims = Answered.read(lab), {}, []
    cases = preflight_cases(stored.answers, stored.questions)
    for (question_set, method), part in cases.groupby(["question_set", "method"], sort=False):
        name, counts = f"{question_set}, {method}", Confusion.of(part["foreseen"].tolist(), part["below"].tolist())
        low, high = preflight_intervals(part, lab.seed)
        tables[f"{name}: preflight"] = [
            {
                "measure": measure,
                "here": "" if here is None else interval(here, low[i], high[i]),
                "in the paper": f"{there:.4f}",
            }
            for i, (measure, here, there) in enumerate(
                (measure, getattr(counts, key), getattr(_PAPER, key))
                for measure, key in (("precision", "precision"), ("recall", "recall"), ("F1", "f1"))
            )
        ]
        tables[f"{name}: preflight"] += [
            {"measure": key.upper(), "here": str(getattr(counts, key)), "in the paper": str(getattr(_PAPER, key))}
            for key in ("tp", "fp", "fn", "tn")
        ]
        claims += _preflight_claims(name, part, lab.seed)
    if not tables:
        because = "no map-reduce answer has a gold document among its passages"
        claims = [untestable(*_PAPERS[name], because) for name in ("foresees", "asks")]
    return Findings(tables=tables, claims=claims)


def preflight_intervals(cases: pd.DataFrame, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """95 % intervals of precision, recall and F1, lower and upper ends, each of shape (3,).

    Args:
        cases: Result of `evaluation.answers.preflight_cases` for one answering method.
        seed: Seed of the resamples.
    """
    foreseen, below = cases["foreseen"].to_numpy(bool), cases["below"].to_numpy(bool)
    counted = np.stack([foreseen & below, foreseen & ~below, ~foreseen & below], axis=1)
    totals = by_document(counted, cases["document"].to_numpy(str))
    tp, fp, fn = resampled_means(totals, RESAMPLES, seed).T
    with np.errstate(invalid="ignore"):
        found = np.stack([tp / (tp + fp), tp / (tp + fn), 2 * tp / (2 * tp + fp + fn)])
    # A resample that predicts nothing has no precision.
    kept = [row[~np.isnan(row)] if not np.isnan(row).all() else row for row in found]
    low, high = np.array([ends(row, totals) for row in kept]).T
    return low, high


def _preflight_claims(name: str, cases: pd.DataFrame, seed: int) -> list[Claim]:
    documents, foreseen, below = (cases[column].to_numpy() for column in ("document", "foreseen", "below"))
    if not below.any():
        because = f"{name}: no key document of {on_documents(len(below), len(set(documents)))} is below the top {TOP}"
        return [untestable(*_PAPERS[claim], because) for claim in ("foresees", "asks")]
    most = by_document(foreseen[below] - 0.5, documents[below])
    (p,), (least,) = permutation_p(most, seed=seed), detectable(most, ALPHA)
    # Zero on average if the preflight asks equally often in both cases: a score test of the two shares.
    together = by_document((foreseen - foreseen.mean()) * (below - below.mean()), documents)
    (p_together,) = permutation_p(together, seed=seed)
    shares = [_share(foreseen[part], documents[part]) for part in (below, ~below)]
    _, high = share_interval(foreseen[below], documents[below])
    asks: Verdict = "undecided" if p_together >= ALPHA else "seen" if together.mean[0] > 0 else "not seen"
    return [
        Claim(
            *_PAPERS["foresees"],
            "seen" if p < ALPHA and most.mean[0] > 0 else "not seen" if high < 0.5 else "undecided",
            f"{name}: {shares[0]}, {p_said(p)} against half of them"
            + ("" if p < ALPHA or np.isnan(least) else f"; the smallest detectable share is {min(0.5 + least, 1):.0%}"),
        ),
        Claim(
            *_PAPERS["asks"],
            asks,
            f"{name}: below the top for {shares[0]}, in it for {shares[1]}; {p_said(p_together)}",
        ),
    ]


def _share(hits: np.ndarray, documents: np.ndarray) -> str:
    """`66.7% [10.1%, 98.0%] of 3 questions on 2 documents`."""
    counts = on_documents(len(hits), len(set(documents)))
    return f"{interval(hits.mean(), *share_interval(hits, documents), '.1%')} of {counts}" if len(hits) else f"{counts}"


def _with_preflight(settings: Settings) -> Sequence[str]:
    return of_answers(settings) if any(way.way == "briefcontext" for way in combinations(settings)) else ()


def _by_position(settings: Settings) -> list[Any]:
    return [*options(settings), settings.experiments.top_k, settings.experiments.positions]


EXPERIMENTS = (
    Experiment(
        POSITIONS,
        "Position of the key document",
        "Accuracy with the key document at several percentiles of contexts of top_k passages, the others retrieved; "
        "one prompt against map-reduce without preflight (BriefContext, section 2.2, figure 2, supplementary table 1).",
        key_position,
        read_by_contexts,
        _by_position,
        version="3",
    ),
    Experiment(
        "conflicts",
        "Conflicts between partitions",
        "The same contexts if their single partitions give different answers (open ones that share less than half of "
        "their words): how many the map-reduce answers correctly, and wins, ties and losses against one prompt "
        "(BriefContext, section 2.3, figure 4, supplementary table 2).",
        conflicts,
        lambda settings: (*read_by_contexts(settings), f"experiments/{POSITIONS}"),
        _by_position,
        version="5",
    ),
    Experiment(
        "documents",
        "Number of documents",
        "Accuracy of one prompt with the key document among an increasing number of retrieved ones, at a random "
        "position for each question (BriefContext, section 2.4, figure 5).",
        documents,
        read_by_contexts,
        lambda settings: [*options(settings), settings.experiments.documents, settings.experiments.positions],
        version="3",
    ),
    Experiment(
        "distractors",
        "Relevant and random distractors",
        "Accuracy of one prompt with the key document in the middle of the largest top_k, among retrieved or "
        "random passages (BriefContext, section 2.6, figure 6).",
        distractors,
        read_by_contexts,
        lambda settings: [*options(settings), settings.experiments.top_k],
        version="3",
    ),
    Experiment(
        "preflight",
        "Quality of the preflight",
        "Precision, recall and F1 of the preflight of every map-reduce answer; true means a key document below the "
        "top 3 (BriefContext, section 2.5, supplementary table 4).",
        preflight,
        _with_preflight,
        version="3",
    ),
)
