"""Assets of the evaluation stage: `runs`, `scores`, `report`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from mog_assets.config import Settings
from mog_assets.corpus.questions import Question, load_questions
from mog_assets.evaluation import checks, plots
from mog_assets.evaluation.measures import evaluate, headline_measures, measure_names
from mog_assets.evaluation.report import render
from mog_assets.evaluation.runs import rank_questions, read_runs, write_runs
from mog_assets.evaluation.scores import leaderboard, score
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.methods import Method, Ranker, default_methods, parse
from mog_assets.routing import router
from resources.recipe import Recipe, Work
from resources.store import digest

GROUP = "evaluation"


def methods_of(settings: Settings) -> list[Method]:
    """The methods that are compared, in order; a method named twice counts once."""
    names = settings.methods or default_methods(settings.retriever, settings.levels)
    methods = [parse(name, settings.retriever, settings.levels) for name in names]
    if not _trained(settings):
        methods = [m for m in methods if m.kind != "mog"]
    return list({method.name: method for method in methods}.values())


def _trained(settings: Settings) -> bool:
    return any(question_set.train for question_set in settings.question_sets.values())


def build_runs(work: Work) -> None:
    """Rank passages by every method for every test question."""
    settings = work.settings
    methods = methods_of(settings)
    sets = {name: q for name, q in settings.question_sets.items() if q.test}
    path, there = work.file("runs.parquet", work.recipe.settings(work.tools), *_versions(work))
    ranked: dict[str, int] = {}

    def tables() -> Iterator[pa.Table]:
        for name, question_set in sets.items():
            stored = work.input("questions").path(f"{name}.parquet")
            questions = [q for q in load_questions(stored, question_set.test) if q.evidence]
            ranked[name] = len(questions)
            if not questions:
                continue
            corpora = Corpora.open(work.input, settings, question_set.corpora)
            texts = [q.question for q in questions]
            rankers = {
                retriever: Ranker(
                    corpora.searcher(retriever, texts, work.tools.encoder.encode, work.tools.qdrant),
                    corpora.layouts,
                    settings.levels,
                    settings.k_r,
                )
                for retriever in {method.retriever for method in methods}
            }
            weights = _weights(work, name, questions, methods)
            yield from rank_questions(name, questions, methods, rankers, corpora, weights, settings.k)

    if not there:
        with work.progress(len(sets) * len(methods), "methods ranked") as advance, work.writing(path) as temporary:
            rows = write_runs(tables(), temporary, advance)
        work.counts |= {"passages": rows, **{f"{name}: questions": n for name, n in ranked.items()}}
        work.recomputed["questions ranked"] = sum(ranked.values()) * len(methods)
    work.counts["methods"] = len(methods)
    work.show_table("sample", read_runs(path).head(8).to_dict("records"))


def _versions(work: Work) -> list[str]:
    keys = [key for key in work.recipe.deps if key in {"questions", "soft_labels", "router"}]
    corpora = [key for key in work.recipe.deps if key not in keys]
    versions = [work.input(key).manifest.version for key in keys]
    return versions + [work.input(key, c).manifest.version for key in corpora for c in work.settings.corpora]


def _weights(work: Work, name: str, questions: Sequence[Question], methods: Sequence[Method]) -> dict[str, np.ndarray]:
    kinds = {method.kind for method in methods}
    weights = {}
    if "mog" in kinds:
        vectors = work.tools.encoder.encode([q.question for q in questions])
        weights["mog"] = router.predict(router.load(work.input("router").path("router.safetensors")), vectors)
    if "oracle" in kinds:
        table = pd.read_parquet(work.input("soft_labels").path("labels.parquet"))
        table = table[table["question_set"] == name]
        by_id = dict(zip(table["question"], table["label"], strict=True))
        none = np.zeros(work.settings.levels)
        weights["oracle"] = np.stack([np.asarray(by_id.get(q.id, none), float) for q in questions])
    return weights


def scored_questions(work: Work) -> dict[str, list[Question]]:
    """Questions that are scored, by question set."""
    stored = work.input("questions")
    return {
        name: [q for q in load_questions(stored.path(f"{name}.parquet"), question_set.test) if q.evidence]
        for name, question_set in work.settings.question_sets.items()
        if question_set.test
    }


def build_scores(work: Work) -> None:
    """Measure every run; intervals, and tests against the best single level."""
    settings = work.settings
    runs = work.input("runs")
    table = read_runs(runs.path("runs.parquet"))
    methods = methods_of(settings)
    with work.progress(len(methods), "methods measured") as advance:
        measured = evaluate(table, scored_questions(work), settings.k, advance)
    kinds = {method.name: (method.retriever, method.kind) for method in methods}
    with work.progress(0, "significance tested"):
        scores = score(measured, settings.k, settings.seed, kinds)
    for name, frame in (("per_question", measured), ("scores", scores)):
        path, there = work.file(f"{name}.parquet", runs.manifest.version, work.recipe.settings(work.tools))
        if not there:
            with work.writing(path) as temporary:
                frame.to_parquet(temporary)
    work.recomputed["questions scored"] = len(measured)
    work.counts |= {"methods": len(methods), "measures": len(measure_names(settings.k)), "rows": len(scores)}
    for name in sorted(set(scores["question_set"])):
        work.counts[f"{name}: questions"] = int(scores[scores["question_set"] == name]["n"].max())
        rows = leaderboard(scores, name, headline_measures(settings.k))
        work.show_table(f"leaderboard: {name}", rows)
        work.show_plot(f"ER against context: {name}", plots.er_against_cost(scores, name))


def build_report(work: Work) -> None:
    """Write the scores as one page."""
    stored = work.input("scores")
    scores = pd.read_parquet(stored.path("scores.parquet"))
    pictures = {}
    for name in sorted(set(scores["question_set"])):
        pictures[f"{name}: evidence recall against context"] = plots.er_against_cost(scores, name)
        pictures[f"{name}: evidence recall of all methods"] = plots.leaderboard_bars(scores, name)
    settings = work.settings
    notes = [
        f"Retriever {settings.retriever}, k_r = {settings.k_r}, k = {settings.k}, levels {settings.levels}, "
        f"finest {settings.finest_chars} characters, encoder {settings.encoder.model}, seed {settings.seed}.",
        "The best single level is chosen on the questions it is scored on, which favours it.",
    ]
    path, there = work.file("report.html", stored.manifest.version, notes)
    if not there:
        with work.writing(path) as temporary:
            temporary.write_text(render(scores, pictures, notes), encoding="utf-8")
    work.recomputed["pages written"] = 1
    work.counts["rows"] = len(scores)
    work.shown["report"] = f"`{path}`"


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage; without test questions there is nothing to measure."""
    if not any(question_set.test for question_set in settings.question_sets.values()):
        return []
    methods = methods_of(settings)
    kinds, retrievers = {m.kind for m in methods}, {m.retriever for m in methods}
    levels = settings.level_range
    deps = ["documents", "chunks/level_1", "tokens", "questions"]
    if retrievers & {"bm25", "hybrid"}:
        deps += [f"bm25/level_{level}" for level in levels]
    if retrievers & {"dense", "hybrid"}:
        deps += [f"collections/level_{level}" for level in levels]
    if "oracle" in kinds:
        deps.append("soft_labels")
    if "mog" in kinds:
        deps.append("router")
    scored = {name: [q.corpora, q.test] for name, q in settings.question_sets.items()}
    options = [settings.bm25.model_dump(), settings.k_r, settings.k, [m.name for m in methods], scored]
    identity = digest(options)
    return [
        Recipe(
            key="runs",
            build=build_runs,
            description="Ranked passages of every method on every test question.",
            group=GROUP,
            deps=tuple(deps),
            partitioned=False,
            settings=lambda tools: [identity, tools.encoder.identity],
            kinds=("parquet",),
            pool="gpu",
        ),
        Recipe(
            key="scores",
            build=build_scores,
            description="Every measure of every method: interval, coverage, test against the best single level.",
            group=GROUP,
            deps=("runs", "questions"),
            partitioned=False,
            settings=lambda tools: [settings.k, settings.seed, [m.name for m in methods], scored],
            checks=(checks.MEASURES_IN_RANGE,),
            kinds=("parquet",),
        ),
        Recipe(
            key="report",
            build=build_report,
            description="Leaderboard and curves as one HTML page.",
            group=GROUP,
            deps=("scores",),
            partitioned=False,
            kinds=("html",),
        ),
    ]
