"""BriefContext's controlled studies: where the key document stands, among how many others, and among which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom, binomtest, fisher_exact

from mog_assets.answering.answerers import PARTITIONS, briefcontext, one_step, split
from mog_assets.answering.preflight import Confusion
from mog_assets.config import Settings
from mog_assets.corpus.questions import Question
from mog_assets.errors import MogError
from mog_assets.evaluation.answers import normalised, preflight_quality
from mog_assets.evaluation.scores import interval, p_said, p_text
from mog_assets.experiments import reading_plots
from mog_assets.experiments.answers import (
    Stored,
    accuracy_measures,
    differences,
    of_answers,
    of_model,
    paired_rows,
    ways,
    without,
)
from mog_assets.experiments.contexts import (
    Case,
    Way,
    answered,
    candidates,
    cases,
    context,
    depends_on,
    generator,
    options,
    questions_row,
    read_by_contexts,
)
from mog_assets.experiments.lab import ALPHA, Claim, Experiment, Findings, Lab, difference_text, score_rows, told
from mog_assets.significance import holm, permutation_p

ONE, BOTH = "one prompt", "map-reduce"
_WAYS: Mapping[str, Way] = {ONE: one_step, BOTH: partial(briefcontext, preflight=False)}
POSITIONS = "key-position"
# Begins the names of the cells whose answers the experiment on conflicts reads.
_CELL = "context"
_MIDDLE = 50
# BriefContext, supplementary table 4, and the share of conflicts that were resolved (section 1).
_PAPER = Confusion(426, 423, 34, 235)
_RESOLVED = 0.747
_SAMPLES = 2000


def key_position(lab: Lab) -> Findings:
    """The key document at several places of contexts of several sizes, one prompt against map-reduce."""
    chosen = lab.settings.experiments
    size, tables, used, plots, claims = max(chosen.top_k), [], [], {}, []
    for name, questions in candidates(lab).items():
        measures = accuracy_measures(questions)
        find = cache(partial(cases, lab, name, size))
        cells = {
            (top_k, percentile, way): _position(lab, name, find, top_k, percentile, way, size)
            for top_k in chosen.top_k
            for percentile in chosen.positions
            for way in _WAYS
        }
        used.append(questions_row(lab, name, len(cells[size, chosen.positions[0], ONE])))
        pairs = [(cells[k, p, ONE], cells[k, p, BOTH]) for k in chosen.top_k for p in chosen.positions]
        for k in chosen.top_k:
            mean = {way: _mean([cells[k, p, way] for p in chosen.positions], f"top {k}, mean, {way}") for way in _WAYS}
            pairs.append((mean[ONE], mean[BOTH]))
        ends, between = _ends(chosen.positions)
        for k in chosen.top_k if between else ():
            outside = _mean([cells[k, p, ONE] for p in ends], f"top {k}, first and last, {ONE}")
            inside = _mean([cells[k, p, ONE] for p in between], f"top {k}, between, {ONE}")
            pairs.append((outside, inside))
        table = paired_rows(name, pairs, measures, lab.seed)
        tables.append(table)
        plots[f"{name}: accuracy by position of the key document"] = reading_plots.curves(
            {
                f"top {k}, {way}": (
                    chosen.positions,
                    _rows(table, [f"top {k}, {p} %, {way}" for p in chosen.positions], measures[0]),
                )
                for k in chosen.top_k
                for way in _WAYS
            },
            "position of the key document, percentile",
            measures[0],
            f"{name}: accuracy with the key document in the context",
        )
        claims += _position_claims(lab, name, table, measures[0])
    return Findings(pd.concat(_some(tables), ignore_index=True), {"questions": used}, plots, claims)


def _some(tables: list[pd.DataFrame]) -> list[pd.DataFrame]:
    if not tables:
        raise MogError("questions: expected test questions with an answer and evidence, found none")
    return tables


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
    """Means over cells, question by question."""
    measures = ["exact match", "F1"]
    return pd.concat(cells).groupby("question", sort=False)[measures].mean().reset_index().assign(cell=cell)


def _ends(positions: Sequence[int]) -> tuple[list[int], list[int]]:
    """The first and last positions, and those between them."""
    ends = {min(positions), max(positions)}
    return sorted(ends), [p for p in positions if p not in ends]


def _rows(table: pd.DataFrame, cells: Sequence[str], measure: str) -> pd.DataFrame:
    """Rows of some cells, in order."""
    return table[table["measure"] == measure].set_index("cell").loc[list(cells)]


def _position_claims(lab: Lab, name: str, table: pd.DataFrame, measure: str) -> list[Claim]:
    here = table[(table["measure"] == measure) & table["p"].notna()]
    middle = here[here["cell"].str.endswith(f"between, {ONE}")]
    means = here[here["cell"].str.endswith(f"mean, {BOTH}")]
    claims = [
        of_model(
            lab,
            "BriefContext, section 2.2, figure 2",
            "Map-reduce answers more accurately than one prompt, averaged over positions of the key document.",
            bool(((means["p"] < ALPHA) & (means["difference"] > 0)).all()),
            f"{name}, {measure} against one prompt: {differences(means)}",
        )
    ]
    if len(middle):
        lost = bool(((middle["p"] < ALPHA) & (middle["difference"] < 0)).all())
        claims.append(
            of_model(
                lab,
                "BriefContext, section 2.2, supplementary table 1",
                "One prompt answers less accurately with the key document between the ends of the context.",
                lost,
                f"{name}, {measure} between the ends against first and last: {differences(middle)}",
            )
        )
    return claims


def conflicts(lab: Lab) -> Findings:
    """Contexts whose partitions alone are answered differently, and what the reduce makes of them."""
    chosen = lab.settings.experiments
    size, tables, claims = max(chosen.top_k), {}, []
    marks = _answers_by_position(lab)
    for name in candidates(lab):
        find = cache(partial(cases, lab, name, size))
        alone = pd.concat([_partitions(lab, name, find, top_k, size) for top_k in chosen.top_k], ignore_index=True)
        both = marks[marks["question_set"] == name].pivot(
            index=["question", "top_k", "position"], columns="way", values="exact match"
        )
        # A question whose contexts were answered and divided is in both; the same contexts are made again.
        joined = alone.join(both, on=["question", "top_k", "position"], validate="one_to_one")
        rows = conflict_rows(joined[joined["conflict"]], lab.seed)
        for row in rows:
            row["of"] = int(_group(alone, row["top_k"], row["position"]).sum())
        tables[f"{name}: contexts whose partitions disagree"] = without(rows, "low", "p value")
        whole = rows[-1]
        if not whole["conflicts"]:
            continue
        claims.append(
            of_model(
                lab,
                "BriefContext, section 2.3, figure 4",
                f"The reduce resolves most conflicts between partitions (there {_RESOLVED:.1%}).",
                whole["low"] > 0.5,
                f"{name}: {whole['resolved']:,} of {whole['conflicts']:,} conflicts, {whole['share']}",
            )
        )
        claims.append(
            of_model(
                lab,
                "BriefContext, section 2.3, supplementary table 2",
                "Where partitions disagree, map-reduce is right and one prompt wrong more often than the other way.",
                whole["p value"] < ALPHA and whole["win"] > whole["lose"],
                f"{name}: {whole['win']:,} won, {whole['tie']:,} tied, {whole['lose']:,} lost; "
                f"{p_said(whole['p value'])}; a difference of {whole['detectable']:.3f} would have been shown",
            )
        )
    return Findings(tables=tables, claims=claims)


def _group(table: pd.DataFrame, top_k: Any, position: Any) -> pd.Series:
    """Mask of the rows of a size and position; `all` stands for every one."""
    mask = pd.Series(True, table.index)
    for column, value in (("top_k", top_k), ("position", position)):
        if value != "all":
            mask &= table[column] == value
    return mask


def _answers_by_position(lab: Lab) -> pd.DataFrame:
    """What the experiment on positions answered: its cells, with columns top_k, position, way."""
    artefact, chosen = lab.read(f"experiments/{POSITIONS}", None), lab.settings.experiments
    found = pd.concat([pd.read_parquet(artefact.path(name)) for name in artefact.names() if _CELL in name])
    parts = found["method"].str.split(" ", n=3, expand=True)
    found = found.assign(top_k=parts[1].astype(int), position=parts[2].astype(int), way=parts[3])
    return found[found["top_k"].isin(chosen.top_k) & found["position"].isin(chosen.positions)]


def _partitions(lab: Lab, name: str, find: Any, top_k: int, size: int) -> pd.DataFrame:
    """Whether the partitions of a question's contexts are answered differently, each alone.

    The partitions of contexts that differ in the position of the key document are for the most part the same: each
    is asked once.
    """
    positions, roles = lab.settings.experiments.positions, lab.reader()

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
                "conflict": len({normalised(said[part] or "") for part in parts if said[part] is not None}) > 1,
                "partitions without an answer": sum(said[part] is None for part in parts),
            }
            for p, parts in divided.items()
        ]

    key = [*depends_on(lab, name, size), top_k, positions, PARTITIONS]
    return lab.cached(f"{name} partitions of {top_k}", key, make)


def conflict_rows(found: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """How conflicts ended: by size and position of the key document, then over all of them.

    Args:
        found: A row per conflict: question, top_k, position, and 1 or 0 in the columns of both ways for right or wrong.
        seed: Of the resamples.

    Returns:
        Rows with `conflicts`, `resolved` (answered correctly by the map-reduce), their share with a 95 % bootstrap
        interval over questions, win, tie, lose of the map-reduce against one prompt, and p of win against lose: exact
        sign test for a position, Holm-corrected over positions; over all, where a question may occur several times, a
        permutation test over questions. `detectable` is the smallest mean difference of a question that would show.
    """
    cells = [
        (top_k, position, found[(found["top_k"] == top_k) & (found["position"] == position)])
        for top_k in sorted(set(found["top_k"]))
        for position in sorted(set(found["position"]))
    ]
    rows = []
    for top_k, position, part in [*cells, ("all", "all", found)]:
        right, before = part[BOTH] > 0, part[ONE] > 0
        win, lose = int((right & ~before).sum()), int((~right & before).sum())
        by_question = (right.astype(float) - before).groupby(part["question"])
        low, high = _ratio_interval(right.groupby(part["question"]).agg(["sum", "count"]).to_numpy(float), seed)
        p = binomtest(win, win + lose).pvalue if win + lose else 1.0
        if position == "all":
            (p,) = permutation_p(by_question.mean().to_numpy()[:, None], seed=seed)
        spread = float(by_question.mean().std()) if len(by_question) > 1 else 0.0
        rows.append(
            {
                "top_k": top_k,
                "position": position,
                "of": len(part),
                "conflicts": len(part),
                "resolved": int(right.sum()),
                "share": interval(right.mean(), low, high) if len(part) else "",
                "low": low,
                "win": win,
                "tie": len(part) - win - lose,
                "lose": lose,
                "p value": float(p),
                "detectable": 2.8 * spread / np.sqrt(max(len(by_question), 1)),
            }
        )
    corrected = holm(np.array([row["p value"] for row in rows[:-1]]))
    for row, p in zip(rows, [*corrected, rows[-1]["p value"]], strict=True):
        row |= {"p value": float(p), "p": p_text(p)}
    return rows


def _ratio_interval(counts: np.ndarray, seed: int) -> tuple[float, float]:
    """95 % bootstrap interval over questions of a ratio of sums.

    Args:
        counts: float array of shape (questions, 2): what is divided, and by what.
        seed: Of the resamples.
    """
    n = len(counts)
    if not n:
        return float("nan"), float("nan")
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=_SAMPLES) @ counts
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return float(low), float(high)


def documents(lab: Lab) -> Findings:
    """The key document among more and more others, in one prompt."""
    chosen = lab.settings.experiments
    sizes, tables, used, plots, claims = sorted(set(chosen.documents)), [], [], {}, []
    for name, questions in candidates(lab).items():
        measures = accuracy_measures(questions)
        find = cache(partial(cases, lab, name, sizes[-1]))

        def contexts(size: int, find: Any = find) -> list[tuple[Case, list[Any]]]:
            return [(case, context(case, size, _percentile(lab, case.question))) for case in find()]

        cells = [
            answered(
                lab,
                name,
                f"{size} documents",
                [*depends_on(lab, name, sizes[-1]), size, chosen.positions],
                one_step,
                partial(contexts, size),
            ).assign(cell=_documents(size))
            for size in sizes
        ]
        used.append(questions_row(lab, name, len(cells[0])))
        table = score_rows(name, cells, measures, _documents(sizes[0]), lab.seed)
        tables.append(table)
        rows = _rows(table, [_documents(size) for size in sizes], measures[0])
        plots[f"{name}: accuracy by number of documents"] = reading_plots.curves(
            {ONE: (sizes, rows)}, "documents in the context, the key document among them", measures[0], name
        )
        last = told(table, name, _documents(sizes[-1]), measures[0])
        claims.append(
            of_model(
                lab,
                "BriefContext, section 2.4, figure 5",
                "With the same key document in the context, accuracy decreases as the number of documents increases.",
                bool(last["p"] < ALPHA and last["difference"] < 0),
                f"{name}, {measures[0]} against {_documents(sizes[0])}: "
                + differences(table[table["measure"] == measures[0]]),
            )
        )
    return Findings(pd.concat(_some(tables), ignore_index=True), {"questions": used}, plots, claims)


def _documents(size: int) -> str:
    return f"{size} document" + ("s" if size > 1 else "")


def _percentile(lab: Lab, question: Question) -> int:
    """Where a question's key document stands: the paper's mean over positions at the cost of one."""
    return int(generator(lab.seed, question.id).choice(lab.settings.experiments.positions))


def distractors(lab: Lab) -> Findings:
    """The key document in the middle of retrieved or of random passages, in one prompt."""
    size, tables, used, claims = max(lab.settings.experiments.top_k), [], [], []
    for name, questions in candidates(lab).items():
        measures = accuracy_measures(questions)
        find = cache(partial(cases, lab, name, size))

        def contexts(unlike: bool, find: Any = find) -> list[tuple[Case, list[Any]]]:
            return [(case, context(case, size, _MIDDLE, unlike)) for case in find()]

        cells = [
            answered(
                lab, name, f"{cell} distractors", depends_on(lab, name, size), one_step, partial(contexts, unlike)
            ).assign(cell=cell)
            for cell, unlike in (("relevant", False), ("random", True))
        ]
        used.append(questions_row(lab, name, len(cells[0])))
        tables.append(score_rows(name, cells, measures, "relevant", lab.seed))
        row = told(tables[-1], name, "random", measures[0])
        claims.append(
            of_model(
                lab,
                "BriefContext, section 2.6, figure 6",
                "Accuracy is higher with the key document among random documents than among retrieved ones.",
                bool(row["p"] < ALPHA and row["difference"] > 0),
                f"{name}, {measures[0]}, top {size}: {difference_text(row)}",
            )
        )
    return Findings(pd.concat(_some(tables), ignore_index=True), {"questions": used}, claims=claims)


def preflight(lab: Lab) -> Findings:
    """How well the preflight of the stored map-reduces foresees that the key document stands below the top."""
    stored, tables, claims = Stored.read(lab), {}, []
    for row in preflight_quality(stored.answers, stored.questions):
        name, counts = f"{row['question set']}, {row['method']}", Confusion(*(row[x] for x in ("tp", "fp", "fn", "tn")))
        low, high = preflight_intervals(counts, lab.seed)
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
        claims += _preflight_claims(name, counts)
    if not tables:
        raise MogError(
            "answers: expected map-reduces with a gold document among their passages, found none: the preflight can "
            "only be judged on test questions with evidence"
        )
    return Findings(tables=tables, claims=claims)


def preflight_intervals(counts: Confusion, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """95 % bootstrap intervals over questions of precision, recall and F1, lower and upper ends, each of shape (3,)."""
    observed = np.array([counts.tp, counts.fp, counts.fn, counts.tn])
    drawn = np.random.default_rng(seed).multinomial(observed.sum(), observed / observed.sum(), size=_SAMPLES)
    tp, fp, fn, _ = drawn.T
    with np.errstate(invalid="ignore"):
        found = np.stack([tp / (tp + fp), tp / (tp + fn), 2 * tp / (2 * tp + fp + fn)])
    # A resample that predicts nothing has no precision.
    kept = [row[~np.isnan(row)] if not np.isnan(row).all() else row for row in found]
    low, high = np.array([np.quantile(row, [0.025, 0.975]) for row in kept]).T
    return low, high


def _preflight_claims(name: str, counts: Confusion) -> list[Claim]:
    below, above = counts.tp + counts.fn, counts.fp + counts.tn
    p = binomtest(counts.tp, below, 0.5, alternative="greater").pvalue if below else 1.0
    together = fisher_exact([[counts.tp, counts.fn], [counts.fp, counts.tn]], alternative="greater").pvalue
    foreseen, alarmed = counts.tp / max(below, 1), counts.fp / max(above, 1)
    rate = (counts.tp + counts.fp) / (below + above)
    detectable = 2.5 * np.sqrt(rate * (1 - rate) * (1 / max(below, 1) + 1 / max(above, 1)))
    return [
        Claim(
            "BriefContext, section 2.5, supplementary table 4",
            "The preflight foresees most cases of a key document below the top 3 (there 92.6 %).",
            "seen" if p < ALPHA else "not seen",
            f"{name}: {counts.tp} of {below} ({foreseen:.1%}), {p_said(p)} against half of them"
            + ("" if p < ALPHA else f"; {_shown(below):.0%} would have been shown"),
        ),
        Claim(
            "BriefContext, section 2.5",
            "Agreement of two rankings tells where the key document stands: the preflight asks for the map-reduce more "
            "often where it is below the top 3.",
            "seen" if together < ALPHA else "not seen",
            f"{name}: for {foreseen:.1%} of {below} below the top and {alarmed:.1%} of {above} in it (Fisher's exact "
            f"test, one-sided, {p_said(together)})"
            + ("" if together < ALPHA else f"; a difference of {detectable:.3f} would have been shown"),
        ),
    ]


def _shown(n: int) -> float:
    """The smallest share that n cases show to be more than a half, one-sided at `ALPHA` with power .8; 1 for none."""
    shares = np.linspace(0.5, 1, 501)
    power = binom.sf(binom.isf(ALPHA, n, 0.5), n, shares)
    return float(shares[np.argmax(power >= 0.8)]) if (power >= 0.8).any() else 1.0


def _with_preflight(settings: Settings) -> Sequence[str]:
    return of_answers(settings) if any(way.way == "briefcontext" for way in ways(settings)) else ()


EXPERIMENTS = (
    Experiment(
        POSITIONS,
        "Position of the key document",
        "Accuracy with the key document at several percentiles of contexts of top_k passages, the others retrieved, "
        "one prompt against map-reduce without preflight (BriefContext, section 2.2, figure 2, supplementary table 1).",
        key_position,
        read_by_contexts,
        lambda settings: [*options(settings), settings.experiments.top_k, settings.experiments.positions],
    ),
    Experiment(
        "conflicts",
        "Conflicts between partitions",
        "The same contexts where partitions alone are answered differently: how many the map-reduce answers correctly, "
        "win, tie and lose against one prompt (BriefContext, section 2.3, figure 4, supplementary table 2).",
        conflicts,
        lambda settings: (*read_by_contexts(settings), f"experiments/{POSITIONS}"),
        lambda settings: [*options(settings), settings.experiments.top_k, settings.experiments.positions],
    ),
    Experiment(
        "documents",
        "Number of documents",
        "Accuracy of one prompt with the key document among more and more retrieved ones, at a position that is drawn "
        "for each question (BriefContext, section 2.4, figure 5).",
        documents,
        read_by_contexts,
        lambda settings: [*options(settings), settings.experiments.documents, settings.experiments.positions],
    ),
    Experiment(
        "distractors",
        "Relevant and random distractors",
        "Accuracy of one prompt with the key document in the middle of the greatest top_k, among retrieved or among "
        "random passages (BriefContext, section 2.6, figure 6).",
        distractors,
        read_by_contexts,
        lambda settings: [*options(settings), settings.experiments.top_k],
    ),
    Experiment(
        "preflight",
        "Quality of the preflight",
        "Precision, recall and F1 of the preflight of every map-reduce among the answers, where true is a key document "
        "below the top 3 (BriefContext, section 2.5, supplementary table 4).",
        preflight,
        _with_preflight,
    ),
)
