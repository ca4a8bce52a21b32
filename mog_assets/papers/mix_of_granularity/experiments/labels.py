"""Training data of routers (method and values of labels, corpus of the questions), and their weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.config import Settings
from mog_assets.evaluate.measures import headline_measures
from mog_assets.evaluate.scores import p_text
from mog_assets.evaluate.significance import Totals, by_document, holm
from mog_assets.papers.experiments.conclusions import denied, every, joined, over_sets, turned, untestable
from mog_assets.papers.experiments.lab import (
    Claim,
    Experiment,
    Findings,
    Lab,
    NothingToMeasure,
    Verdict,
    difference_interval,
    difference_text,
    equivalence,
    greater,
    registered,
    score_rows,
)
from mog_assets.papers.experiments.settings import EXPERIMENT_SETTINGS
from mog_assets.papers.mix_of_granularity import ranker, router
from mog_assets.papers.mix_of_granularity.experiments.granularity import of_mog
from mog_assets.papers.mix_of_granularity.experiments.label_cells import (
    cell_of,
    corpora_of,
    differing_sets,
    finest_claim,
    ranked_by,
    recall_of,
    soft_labels_of,
    spread_of,
    trained_router,
    training_rows,
    values_of,
)
from mog_assets.papers.mix_of_granularity.ranker import ROUTERS
from mog_assets.papers.mix_of_granularity.settings import SOFT_LABELS
from mog_assets.papers.mix_of_granularity.shifts import shift
from mog_assets.search.methods import needs, parse

ALL = "all"
# Minimum number of questions about a corpus to train a router that is compared with one of all questions.
FEWEST = 50


def soft_labels(lab: Lab) -> Findings:
    """Return routers trained on labels of every method, on each question set and on all together."""
    if not lab.tested():
        raise NothingToMeasure("no test question has evidence")
    settings = lab.settings
    methods = list(dict.fromkeys([SOFT_LABELS.of(settings).method, *EXPERIMENT_SETTINGS.of(settings).label_methods]))
    tables_of = {method: soft_labels_of(lab, method, SOFT_LABELS.of(settings).values) for method in methods}
    sets = list(lab.trained_on())
    trainings = [ALL, *(sets if len(sets) > 1 else [])]
    routers, facts = {}, []
    for training in trainings:
        for method in methods:
            table = tables_of[method]
            table = table if training == ALL else table[table["question_set"] == training]
            fact: dict[str, Any] = {"soft labels": method, "trained on": training}
            if training != ALL and len(table) < router.FEWEST:
                facts.append({**fact, "questions": len(table), "best epoch": "too few questions"})
                continue
            routers[cell_of(method, training)], trained = trained_router(lab, cell_of(method, training), table)
            facts.append(fact | trained)
    pairs = [
        (cell_of(one, training), cell_of(other, training))
        for training in trainings
        for one, other in combinations(methods, 2)
        if {cell_of(one, training), cell_of(other, training)} <= set(routers)
    ]
    tables, shown = [], {}
    compared: list[pd.Series] = []
    sound: dict[str, tuple[Verdict, str]] = {}
    for name in lab.tested():
        cells = ranked_by(lab, name, routers)
        tables.append(score_rows(name, cells, headline_measures(settings.k), cell_of(methods[0], ALL), lab.seed))
        if not pairs:
            continue
        rows = _pairwise(name, cells, pairs, lab.seed)
        shown[f"{name}: methods on the same training questions, two by two (ER)"] = _text_rows(rows)
        compared += rows
        if others := [verdict for row in rows if (verdict := _over("embedding", row)) is not None]:
            figures = "; ".join(f"{row['cell']} {difference_text(row)}" for row in others)
            sound[name] = (every(denied(greater(row)) for row in others), f"ER against embedding: {figures}")
    table5 = "Mix-of-Granularity, table 5 and appendix E"
    return Findings(
        joined(tables),
        tables={"training": facts, **shown},
        claims=[
            *([_no_best(table5, methods, compared)] if compared else []),
            *over_sets(table5, "Labels by embedding are good across the board: no other method is better.", sound),
            untestable(
                table5,
                "With Qwen1.5, labels by embedding (RoBERTa) give good accuracy across the board.",
                "This is about the accuracy of a language model's answers; here only the passages are compared.",
            ),
        ],
    )


def label_values(lab: Lab) -> Findings:
    """Return routers trained on labels of other values for the two best levels."""
    if not lab.tested():
        raise NothingToMeasure("no test question has evidence")
    settings = lab.settings
    wanted = list(dict.fromkeys([SOFT_LABELS.of(settings).values, *EXPERIMENT_SETTINGS.of(settings).label_values]))
    routers, facts = {}, []
    for values in wanted:
        table = soft_labels_of(lab, SOFT_LABELS.of(settings).method, values)
        cell = values_of(values)
        routers[cell], fact = trained_router(lab, cell, table)
        facts.append({"values": cell, **fact})
    tables = []
    similar: dict[str, tuple[Verdict, str]] = {}
    baseline = values_of(wanted[0])
    for name in lab.tested():
        tables.append(
            score_rows(name, ranked_by(lab, name, routers), headline_measures(settings.k), baseline, lab.seed)
        )
        if rows := recall_of(tables[-1], baseline):
            figures = "; ".join(f"{row['cell']} {difference_text(row)}" for row in rows)
            similar[name] = (every(equivalence(row) for row in rows), f"ER against {baseline}: {figures}")
    return Findings(
        joined(tables),
        tables={"training": facts},
        claims=over_sets("Mix-of-Granularity, section 3.2", "Label values .8/.2 and .7/.3 are equally good.", similar),
    )


def training_corpus(lab: Lab) -> Findings:
    """Return routers trained on the questions about one corpus, tested on those about every corpus.

    Each is also compared with as many questions drawn from all, to separate the effect of the corpus from that of fewer
    questions.
    """
    if not lab.tested():
        raise NothingToMeasure("no test question has evidence")
    settings = lab.settings
    table = pd.read_parquet(lab.read("soft_labels", None).path("labels.parquet"))
    table = table[table["train"].astype(bool)].reset_index(drop=True)
    its_corpora = {(name, q.id): corpora_of(q) for name, questions in lab.trained_on().items() for q in questions}
    about = [its_corpora[key] for key in zip(table["question_set"], table["question"], strict=True)]
    counts = Counter(next(iter(corpora)) for corpora in about if len(corpora) == 1)
    trained_on = {ALL: table}
    equal: dict[str, str] = {}
    for corpus in sorted(corpus for corpus, count in counts.items() if FEWEST <= count < len(table)):
        trained_on[corpus] = table[[corpora == {corpus} for corpora in about]]
        equal[corpus] = f"{ALL}, as many as {corpus}"
        trained_on[equal[corpus]] = table.sample(len(trained_on[corpus]), random_state=lab.seed)
    routers, facts = {}, []
    for cell, rows in trained_on.items():
        routers[cell], fact = trained_router(lab, cell, rows)
        facts.append({"trained on questions about": cell, **fact})
    tables, shown = [], {}
    worse: dict[str, tuple[Verdict, str]] = {}
    narrower: dict[str, tuple[Verdict, str]] = {}
    for name, questions in lab.tested().items():
        cells = ranked_by(lab, name, routers)
        measures = headline_measures(settings.k)
        tables.append(score_rows(name, cells, measures, ALL, lab.seed))
        if equal:
            of_one = [row for row in recall_of(tables[-1], ALL) if row["cell"] in equal]
            figures = "; ".join(f"{row['cell']} {difference_text(row)}" for row in of_one)
            worse[name] = (every(greater(turned(row)) for row in of_one), f"ER against trained on all: {figures}")
            as_many = _pairwise(name, cells, [(other, corpus) for corpus, other in equal.items()], lab.seed)
            shown[f"{name}: one corpus against as many questions about all (ER)"] = _text_rows(as_many)
            figures = "; ".join(f"{row['cell']} {difference_text(row)}" for row in as_many)
            narrower[name] = (every(greater(turned(row)) for row in as_many), f"ER: {figures}")
        for corpus in settings.question_sets[name].corpora if len(cells) > 1 else ():
            ids = {q.id for q in questions if corpora_of(q) == {corpus}}
            if ids:
                part = [cell[cell["question"].isin(ids)] for cell in cells]
                tables.append(score_rows(f"{name}, evidence in {corpus}", part, measures, ALL, lab.seed))
    paper = "Mix-of-Granularity, tables 1, 7 and 10, appendix L"
    claim = "A router trained on one corpus is not as good as one trained on all."
    needs_more = untestable(
        paper, claim, f"No single corpus has the evidence of at least {FEWEST} training questions, but not of all."
    )
    return Findings(
        joined(tables),
        tables={"training": facts, **shown},
        claims=[
            *(over_sets(paper, claim, worse) or [needs_more]),
            *over_sets(
                "Ours: Mix-of-Granularity does not separate corpora from numbers of questions",
                "A router trained on one corpus is not as good as one trained on as many questions about all.",
                narrower,
            ),
        ],
    )


def router_weights(lab: Lab) -> Findings:
    """Return the router's weights for the questions of each set, and of each kind."""
    if not lab.tested():
        raise NothingToMeasure("no test question has evidence")
    rows = []
    chosen: dict[str, Totals] = {}
    spread: dict[str, tuple[Verdict, str]] = {}
    finest: dict[str, tuple[Verdict, str]] = {}
    for name, questions in lab.tested().items():
        weights = ranker.router_weights(lab.retrieval(name), "mog-paper").astype(np.float64)
        documents = np.array([q.document for q in questions])
        parts = {name: np.ones(len(questions), bool)}
        counts = Counter(q.kind for q in questions)
        if len(counts) > 1:
            parts |= {f"{name}: {kind or '(none)'}": np.array([q.kind == kind for q in questions]) for kind in counts}
        for label, mask in parts.items():
            means = weights[mask].mean(axis=0)
            totals = by_document(router.choices(weights[mask]), documents[mask])
            rows.append(
                {"questions": label, "n": int(mask.sum()), "documents": len(totals.sizes)}
                | {f"level {level}": float(mean) for level, mean in enumerate(means, 1)}
                | {"chosen": " / ".join(f"{count:.0f}" for count in totals.sums.sum(axis=0))}
            )
            # The paper's question sets are kinds if several of them form one set here.
            if label != name or len(counts) == 1:
                chosen[label] = totals
        spread[name] = spread_of(weights, documents, lab.seed)
        of_pubmedqa = np.array(["pubmedqa" in f"{name} {q.kind}".lower() for q in questions])
        if of_pubmedqa.any():
            finest[name] = finest_claim(weights[of_pubmedqa], documents[of_pubmedqa], lab.seed)
    between = _pairs(chosen, lab.seed)
    figure4 = "Mix-of-Granularity, figure 4 and section 4.3"
    differ = "Question sets get different levels."
    claims = over_sets(
        "Mix-of-Granularity, figure 4 and appendix D", "The router gives levels different weights.", spread
    )
    claims.append(
        differing_sets(figure4, differ, between)
        if between
        else untestable(figure4, differ, "There is only one question set, of one kind, so there is nothing to compare.")
    )
    most = "On PubMedQA the finest level is chosen most often."
    claims += over_sets(figure4, most, finest) or [untestable(figure4, most, "No test question is of PubMedQA.")]
    return Findings(
        tables={
            "mean weights, and for how many questions each level was chosen": rows,
            "do they choose alike? total variation distance, permutation test over documents, Holm": [
                {**row, "p": p_text(row["p"])} for row in between
            ],
        },
        claims=claims,
    )


def _pairwise(name: str, cells: Sequence[pd.DataFrame], pairs: Sequence[tuple[str, str]], seed: int) -> list[pd.Series]:
    """Return ER of the second cell of each pair against the first, Holm-corrected, as rows of `score_rows`."""
    er = {str(cell["cell"].iloc[0]): cell.set_index(["question", "document"])["ER"] for cell in cells}
    differences = [
        (er[cell] - er[against]).reset_index().assign(cell=f"{cell} against {against}") for against, cell in pairs
    ]
    none = differences[0].assign(cell="no difference", ER=0.0)
    table = score_rows(name, [none, *differences], ["ER"], "no difference", seed).iloc[1:]
    table = table.assign(cell=[cell for _, cell in pairs], against=[against for against, _ in pairs])
    return [row for _, row in table.iterrows()]


def _text_rows(rows: Sequence[pd.Series]) -> list[dict[str, str]]:
    """Return rows of `_pairwise` to print."""
    return [
        {
            "": str(row["cell"]),
            "against": str(row["against"]),
            "difference": difference_interval(row),
            "p": p_text(row["p"]),
            "detectable": "" if np.isnan(row["detectable"]) else f"{row['detectable']:.3f}",
            "n": str(row["n"]),
            "documents": str(row["documents"]),
        }
        for row in rows
    ]


def _over(method: str, row: pd.Series) -> pd.Series | None:
    """Return a row that compares two label methods, seen from this method; None if it is about neither."""
    if str(row["against"]).startswith(f"{method},"):
        return row
    if str(row["cell"]).startswith(f"{method},"):
        turned_row = turned(row)
        turned_row["cell"], turned_row["against"] = row["against"], row["cell"]
        return turned_row
    return None


def _no_best(paper: str, methods: Sequence[str], rows: Sequence[pd.Series]) -> Claim:
    """Return whether each label method is beaten by another on some question set."""
    beaten, best = {}, []
    for method in methods:
        others = [other for row in rows if (other := _over(method, row)) is not None]
        beaten[method] = [
            f"by {row['cell']} on {row['question_set']} ({difference_text(row)})"
            for row in others
            if greater(row) == "seen"
        ]
        if all(greater(turned(row)) == "seen" for row in others):
            best.append(method)
    verdict: Verdict = "seen" if all(beaten.values()) else "not seen" if best else "undecided"
    figures = "; ".join(f"{method} is beaten {', '.join(by) or 'nowhere'}" for method, by in beaten.items())
    claim = "No soft-label method is best everywhere."
    return Claim(paper, claim, verdict, f"Significantly better in ER: {figures}")


def _pairs(chosen: Mapping[str, Totals], seed: int) -> list[dict[str, Any]]:
    """Compare question sets, or kinds of questions, with each other."""
    return _tested([(f"{a} against {b}", chosen[a], chosen[b]) for a, b in combinations(chosen, 2)], seed)


def _tested(pairs: Sequence[tuple[str, Totals, Totals]], seed: int) -> list[dict[str, Any]]:
    """Return distance between levels chosen for two groups of questions each; p-values corrected over the pairs."""
    shifts = [shift(one, other, seed=seed) for _, one, other in pairs]
    adjusted = holm(np.array([p for _, p in shifts]))
    return [
        {"questions": label, "distance": distance, "p": float(p)}
        for (label, _, _), (distance, _), p in zip(pairs, shifts, adjusted, strict=True)
    ]


def assets_of_labels(settings: Settings, methods: Callable[[Settings], Sequence[str]]) -> Sequence[str]:
    """Return the assets that labels, routers and rankings need; none if no router can be trained."""
    if not settings.trains:
        return ()
    searched = needs([parse("mog-paper", settings), parse("bm25:fixed-1", settings)], settings).keys
    levels = settings.level_range if "embedding" in methods(settings) else ()
    wanted = ("questions", *searched, *(f"embeddings/level_{level}" for level in levels))
    # The routers are trained by the experiment.
    return tuple(key for key in wanted if key != ROUTERS["mog-paper"])


def _methods(settings: Settings) -> list[str]:
    return [SOFT_LABELS.of(settings).method, *EXPERIMENT_SETTINGS.of(settings).label_methods]


def _of_stored_labels(settings: Settings) -> Sequence[str]:
    """Return the assets for routers trained by the experiment on stored labels, and for their rankings."""
    searched = of_mog(settings)
    return ("soft_labels", *(key for key in searched if key != ROUTERS["mog-paper"])) if searched else ()


registered(
    Experiment(
        "soft-labels",
        "How soft labels are made",
        "MoG with routers trained on soft labels by embedding, tf-idf and hit rate, on the training questions of each "
        "question set and of all together (Mix-of-Granularity, table 5).",
        soft_labels,
        lambda settings: assets_of_labels(settings, _methods),
        lambda settings: [*training_rows(settings), EXPERIMENT_SETTINGS.of(settings).label_methods],
        version="2",
    ),
    Experiment(
        "label-values",
        "Values of soft labels",
        "MoG with routers trained on soft labels of other values for the two most similar levels, .8/.2 and .7/.3 "
        "(Mix-of-Granularity, section 3.2).",
        label_values,
        lambda settings: assets_of_labels(settings, lambda settings: [SOFT_LABELS.of(settings).method]),
        lambda settings: [*training_rows(settings), EXPERIMENT_SETTINGS.of(settings).label_values],
        version="2",
    ),
    Experiment(
        "training-corpus",
        "Corpus that the router is trained on",
        f"MoG with routers trained on the questions whose evidence is in a single corpus (with at least {FEWEST} "
        "such questions), against all and against as many of all; tested on all test questions and on those about each "
        "corpus (Mix-of-Granularity, tables 7 and 10).",
        training_corpus,
        _of_stored_labels,
        training_rows,
        version="2",
    ),
    Experiment(
        "router-weights",
        "Weights of the router",
        "Mean weight of every level by question set and by kind of question (Mix-of-Granularity, figure 4).",
        router_weights,
        of_mog,
        version="2",
    ),
)
