"""Assets of the evaluation stage: `runs`, `scores`, `history`, `report`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mog_assets.answering.notation import combinations
from mog_assets.answering.rows import read_answers
from mog_assets.config import Settings
from mog_assets.evaluation import browse, checks, plots
from mog_assets.evaluation.agreement import AGREEMENT, agreement, points, sentences
from mog_assets.evaluation.answers import answer_board, mark, preflight_cases, preflight_quality, score_answers
from mog_assets.evaluation.configuration import configuration, shown_configuration
from mog_assets.evaluation.history_assets import build_history
from mog_assets.evaluation.measures import Board, boards, evaluate, headline_measures, measure_names
from mog_assets.evaluation.report import Report, environment, render
from mog_assets.evaluation.runs import rank_questions, read_runs, write_runs
from mog_assets.evaluation.scores import leaderboard, score
from mog_assets.questions.origins import measures_nothing, origins, said
from mog_assets.questions.sets import MEASURED, Question, load_questions
from mog_assets.ranking.retrieve import MODELS, Retrieval, needs
from mog_assets.recipe import Recipe, Work
from mog_assets.retrieval.methods import Method, check_trained, default_methods, parse
from mog_assets.routing import router
from mog_assets.routing.families import Family, families
from mog_assets.routing.retrieve import Needs
from mog_assets.significance import by_document, shift
from resources.store import digest

GROUP = "evaluation"
# The levels chosen for test questions differ from those in training if this share of questions would have to change
# level (a population stability index of about .2 for two levels) and the p-value is below ALPHA.
SHIFTED = 0.15
ALPHA = 0.05


def methods_of(settings: Settings) -> list[Method]:
    """The methods that are compared, in order; a method named twice counts once.

    The controls are always included, at the two ends: tables show methods with equal means in this order.
    """
    if settings.methods:
        methods = [parse(name, settings) for name in settings.methods]
        for method in methods:
            check_trained("methods", method, settings)
    else:
        found = [parse(name, settings) for name in default_methods(settings)]
        methods = [m for m in found if settings.trains_routers or not m.trained]
    searching = {method.name: method for method in methods if not method.control}
    return [parse("gold", settings), *searching.values(), parse("random", settings)]


def build_runs(work: Work) -> None:
    """Rank passages by every method for every test question."""
    settings = work.settings
    methods = methods_of(settings)
    asked = {name: questions for name, questions in scored_questions(work).items() if questions}
    retrievals = {name: _retrieval(work, name, questions) for name, questions in asked.items()}
    oracle = any(method.kind == "oracle-paper" for method in methods)
    weights = {name: {"oracle-paper": _oracle(work, name, asked[name])} if oracle else {} for name in asked}
    path, there = work.file(
        "runs.parquet", work.recipe.settings(work.tools), *_versions(work, needs(methods, settings))
    )

    def tables() -> Iterator[pa.Table]:
        for name, questions in asked.items():
            yield from rank_questions(name, questions, methods, retrievals[name], weights[name], settings.k)

    ranked = {name: len(questions) for name, questions in asked.items()}
    if not there:
        with work.progress(len(asked) * len(methods), "methods ranked") as advance, work.writing(path) as temporary:
            write_runs(tables(), temporary, advance)
        work.recomputed["questions ranked"] = sum(ranked.values()) * len(methods)
    passages = read_runs(path)
    work.counts |= {"passages": len(passages), **{f"{name}: questions": n for name, n in ranked.items()}}
    work.counts["methods"] = len(methods)
    work.show_table("sample", passages.head(8).to_dict("records"))
    _show_levels(work, retrievals, {method.kind for method in methods if method.routed})
    _show_topics(work, retrievals, methods, weights)


def _retrieval(work: Work, name: str, questions: Sequence[Question]) -> Retrieval:
    corpora = work.settings.question_sets[name].corpora
    return Retrieval.open(work.tools, work.input, corpora, [q.question for q in questions])


def _versions(work: Work, needed: Needs) -> list[str]:
    shared = [work.input(key).manifest.version for key in ("questions", *needed.shared)]
    return shared + [work.input(key, c).manifest.version for key in needed.per_corpus for c in work.settings.corpora]


def _oracle(work: Work, name: str, questions: Sequence[Question]) -> np.ndarray:
    """Soft labels as weights: float array of shape (questions, levels)."""
    table = pd.read_parquet(work.input("soft_labels").path("labels.parquet"))
    here = table[table["question_set"] == name]
    by_id = dict(zip(here["question"], here["label"], strict=True))
    none = np.zeros(work.settings.levels)
    return np.stack([np.asarray(by_id.get(q.id, none), float) for q in questions])


def _show_levels(work: Work, retrievals: Mapping[str, Retrieval], kinds: Collection[str]) -> None:
    """Compare the levels that routers choose for test questions with those for their training questions.

    A question set without training questions is compared with all training questions. Documents are permuted, not
    questions.
    """
    asked = scored_questions(work)
    work.info["levels chosen"] = {}
    rows = []
    for family in families(work.settings):
        if family.kind not in kinds:
            continue
        bars = []
        training, weights = _trained_on(work, family)
        for name, retrieval in retrievals.items():
            # Nobody asks like that, so the router may well choose otherwise.
            if measures_nothing(name, origins(work.settings)):
                continue
            own = (training["question_set"] == name).to_numpy()
            own = own if own.any() else np.ones(len(training), bool)
            seen = by_document(router.choices(weights[own]), training["group"].to_numpy(str)[own])
            tested = by_document(router.choices(retrieval.weights(family.kind)), [q.document for q in asked[name]])
            before, now = (chosen.sums.sum(axis=0).astype(int) for chosen in (seen, tested))
            distance, p = shift(seen, tested, seed=work.settings.seed)
            work.info["levels chosen"][f"{name}, {family.kind}"] = {
                "training": before.tolist(),
                "test": now.tolist(),
                "distance": distance,
                "p": p,
                "shifted": distance >= SHIFTED and p < ALPHA,
            }
            bars += [(f"{name}: training", before), (f"{name}: test", now)]
            rows += [
                {"question set": name, "router": family.kind, "chosen": label, "training": int(a), "test": int(b)}
                for label, a, b in zip(family.names, before, now, strict=True)
            ]
        if bars:
            picture = plots.levels_chosen(bars, family.names)
            work.show_plot(f"chosen by the router of {family.kind} in training and test", picture)
    if rows:
        work.show_table("levels chosen", rows)


def _trained_on(work: Work, family: Family) -> tuple[pd.DataFrame, np.ndarray]:
    """The training questions of the current router, and its outputs for them: one row each."""
    stored, encoder = work.input(family.router), work.tools.encoder
    opened = router.open_router(stored, encoder.fingerprint, len(family.names))
    questions = pd.read_parquet(stored.path("questions.parquet"))
    return questions, router.predict(opened.weights, encoder.encode(questions["text"].tolist()))


def _show_topics(
    work: Work,
    retrievals: Mapping[str, Retrieval],
    methods: Sequence[Method],
    weights: Mapping[str, Mapping[str, np.ndarray]],
) -> None:
    """Count the questions that had no topic, or too few passages of it."""
    rows = []
    for method in methods:
        for name, retrieval in retrievals.items() if method.topics else ():
            fell_back = retrieval.fell_back(method, work.settings.k, weights[name].get(method.kind))
            back, total = int(fell_back.sum()), len(retrieval.queries)
            outliers = int((retrieval.topics[0] < 0).sum())
            rows.append({"method": method.name, "question set": name, "questions": total, "without a topic": outliers})
            rows[-1] |= {"passages of all topics": back}
            work.counts[f"{name}, {method.name}: fallbacks"] = back
    if rows:
        work.show_table("topics", rows)


def scored_questions(work: Work) -> dict[str, list[Question]]:
    """The test questions that can measure a ranking, by question set."""
    stored = work.input("questions")
    return {
        name: [q for q in load_questions(stored.path(f"{name}.parquet"), question_set.test) if q.level in MEASURED]
        for name, question_set in work.settings.question_sets.items()
        if question_set.test
    }


def build_scores(work: Work) -> None:
    """Measure every run, with intervals and tests against the best fixed level."""
    settings = work.settings
    runs = work.input("runs")
    table = read_runs(runs.path("runs.parquet"))
    methods = methods_of(settings)
    with work.progress(len(methods), "methods measured") as advance:
        measured = evaluate(table, scored_questions(work), settings.k, advance)
    # The baselines are fixed levels without topics.
    kinds = {m.name: (m.retriever or "", f"{m.kind}+topics" if m.topics else m.kind) for m in methods}
    with work.progress(0, "significance tested"):
        scores = score(measured, settings.k, settings.seed, kinds)
        made_by, corpora = origins(settings), {name: q.corpora for name, q in settings.question_sets.items()}
        compared = agreement(measured, kinds, made_by, corpora, settings.seed)
    for name, frame in (("per_question.parquet", measured), ("scores.parquet", scores), (AGREEMENT, compared)):
        # Evidence may change while the runs do not.
        versions = [runs.manifest.version, work.input("questions").manifest.version]
        path, there = work.file(name, *versions, work.recipe.settings(work.tools))
        if not there:
            with work.writing(path) as temporary:
                frame.to_parquet(temporary)
    work.recomputed["questions scored"] = len(measured)
    work.counts |= {"methods": len(methods), "measures": len(measure_names(settings.k)), "rows": len(scores)}
    for name in sorted(set(scores["question_set"])):
        work.counts[f"{name}: questions"] = int(scores[scores["question_set"] == name]["n"].max())
    for board, own in boards(scores, made_by):
        title = f"leaderboard: {board.name}{said(board.question_set, made_by)}"
        work.show_table(title, leaderboard(own, headline_measures(settings.k)))
        if board.evidence == "spans" and not measures_nothing(board.question_set, made_by):
            work.show_plot(f"ER against context: {board.name}", plots.er_against_cost(own, board.question_set))
    for row, sentence in zip(compared.to_dict("records"), sentences(compared), strict=True):
        name = f"generated and real questions: {row['made_question_set']} and {row['question_set']}, {row['split']}"
        work.shown[name] = sentence
        work.show_plot(f"{name}, by method", plots.agreement(row, points(row, scores)))


def build_answer_scores(work: Work) -> None:
    """Mark every answer, with intervals and tests against answering without retrieval."""
    stored = work.input("answers")
    answers = read_answers(stored.path, stored.names())
    names = sorted(set(answers["question_set"])) if len(answers) else []
    held = work.input("questions")
    questions = {name: load_questions(held.path(f"{name}.parquet")) for name in names}
    marks = mark(answers, questions)
    with work.progress(0, "significance tested"):
        scores = score_answers(marks, work.settings.seed) if len(marks) else marks
    for name, frame in (("per_question", marks), ("scores", scores)):
        path, there = work.file(f"{name}.parquet", stored.manifest.version, held.manifest.version, work.settings.seed)
        if not there:
            with work.writing(path) as temporary:
                frame.to_parquet(temporary)
    work.recomputed["answers marked"] = len(marks)
    work.counts |= {"rows": len(scores), "answers": len(marks)}
    for name in names:
        work.show_table(f"answers: {name}", answer_board(scores, name))
        work.show_plot(f"accuracy against reading: {name}", plots.accuracy_against_cost(scores, name))
    quality = preflight_quality(preflight_cases(answers, questions)) if len(answers) else []
    work.info["preflight"] = quality
    if quality:
        work.show_table("preflight of BriefContext", quality)


def build_report(work: Work) -> None:
    """Write all measurements as one page."""
    settings, stored, past = work.settings, work.input("scores"), work.input("history")
    answered = work.input("answer_scores") if combinations(settings) else None
    inputs = {key: work.input(key).manifest.version for key in work.recipe.deps if key != "documents"}
    corpora = dict.fromkeys(
        corpus for name in scored_questions(work) for corpus in settings.question_sets[name].corpora
    )
    inputs |= {f"documents of {name}": work.input("documents", name).manifest.version for name in corpora}
    scores, compared = (pd.read_parquet(stored.path(name)) for name in ("scores.parquet", AGREEMENT))
    table, made_by = pd.read_parquet(past.path("history.parquet")), origins(settings)
    configuration, choices = shown_configuration(settings), _choices(work)
    chosen = work.input("method").manifest.info
    learning = [
        {"ranking": name, **row}
        for name, key in MODELS.items()
        if key in work.recipe.deps
        for row in work.input(key).manifest.info["learning curve"]
    ]
    preflight = answered.manifest.info["preflight"] if answered else []
    facts = [
        *([("scores of", f"{table['time'].max():%Y-%m-%d %H:%M} UTC")] if len(table) else []),
        ("encoder", f"{configuration['encoder']['model']}, {work.tools.encoder.fingerprint[:12]}"),
        ("seed", str(settings.seed)),
        *environment(),
        *((f"version of {key}", version[:12]) for key, version in inputs.items()),
    ]
    # Choices and preflight are in manifests, so no file version shows that they have changed.
    path, there = work.file("report.html", inputs, configuration, facts, choices, learning, preflight)
    if not there:
        with work.progress(0, "wins and losses read"):
            main, groups, duels = _browsed(work, scores, list(corpora))
        page = Report(
            scores=scores,
            headline=headline_measures(settings.k),
            notes=[
                f"In use: {chosen['method']}: {chosen['why']}.",
                f"Retriever {settings.retriever}, k_r = {settings.k_r}, k = {settings.k}, levels {settings.levels}, "
                f"chunker {settings.chunker.name}, finest {settings.finest_chars} characters, "
                f"encoder {configuration['encoder']['model']}, "
                f"seed {settings.seed}.",
                "The best fixed level is chosen on the questions it is scored on, which favours it.",
            ],
            main=main,
            groups=groups,
            duels=duels,
            learning=learning,
            choices=choices,
            answers=pd.read_parquet(answered.path("scores.parquet")) if answered else None,
            preflight=preflight,
            history=table,
            facts=facts,
            configuration=configuration,
            origins=made_by,
            agreement=compared,
        )
        with work.writing(path) as temporary:
            temporary.write_text(render(page), encoding="utf-8")
    work.recomputed["pages written"] = int(not there)
    work.counts["rows"] = len(scores)
    work.shown["report"] = f"`{path}`"
    for board, own in boards(scores, made_by):
        title = f"leaderboard: {board.name}{said(board.question_set, made_by)}"
        work.show_table(title, leaderboard(own, headline_measures(settings.k)))
        if not measures_nothing(board.question_set, made_by):
            work.show_plot(f"all methods: {board.name}", plots.leaderboard_bars(own, board.question_set))


def _browsed(
    work: Work, scores: pd.DataFrame, corpora: Sequence[str]
) -> tuple[dict[Board, list[str]], dict[Board, pd.DataFrame], dict[Board, dict[str, Any]]]:
    """Main methods, groups of questions, and wins and losses, by question set and split."""
    settings = work.settings
    per_question = pd.read_parquet(work.input("scores").path("per_question.parquet"))
    runs = read_runs(work.input("runs").path("runs.parquet"))
    questions = scored_questions(work)
    stored = {name: work.input("documents", name) for name in corpora}
    buckets = {name: [held.path(bucket) for bucket in held.names("bucket")] for name, held in stored.items()}
    main, groups, duels = {}, {}, {}
    scored = dict(boards(scores))
    for board, part in boards(per_question):
        if measures_nothing(board.question_set, origins(settings)):
            continue
        main[board] = browse.main_methods(scored[board])
        measures = [name for name in headline_measures(settings.k) if name in set(scored[board]["measure"])]
        asked = questions[board.question_set]
        groups[board] = browse.by_group(part, asked, main[board], measures, settings.seed)
        if len(main[board]) > 1:
            own_runs = runs[runs["question_set"] == board.question_set]
            texts = partial(browse.read_texts, buckets)
            duels[board] = browse.duels(part, own_runs, asked, main[board], texts)
    return main, groups, duels


def _choices(work: Work) -> list[dict[str, Any]]:
    """The levels chosen by routers, compared with their training, from `runs`."""
    chosen = work.input("runs").manifest.info["levels chosen"]
    return [
        {"question_set": name, "router": family.kind, "names": list(family.names), **chosen[f"{name}, {family.kind}"]}
        for name in work.settings.question_sets
        for family in families(work.settings)
        if f"{name}, {family.kind}" in chosen
    ]


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage; none without test questions."""
    if not settings.tests:
        return []
    methods = methods_of(settings)
    scored = {name: [q.corpora, q.test] for name, q in settings.question_sets.items()}
    options = [
        settings.bm25.model_dump(),
        settings.graph.hops,
        settings.k_r,
        settings.k,
        settings.seed,
        [m.name for m in methods],
        scored,
    ]
    identity = digest(options)
    return [
        Recipe(
            key="runs",
            build=build_runs,
            description="Ranked passages of every method for every test question.",
            group=GROUP,
            deps=("questions", *needs(methods, settings).keys),
            partitioned=False,
            settings=lambda tools: [identity, tools.encoder.identity],
            repeatable=True,
            checks=(checks.SAME_AGAIN, *((checks.LEVELS_AS_IN_TRAINING,) if any(m.routed for m in methods) else ())),
            version="4",
            kinds=("parquet",),
            pool="gpu",
        ),
        Recipe(
            key="scores",
            build=build_scores,
            description="Every measure of every method, with interval, coverage, test against the best fixed level.",
            group=GROUP,
            deps=("runs", "questions"),
            partitioned=False,
            settings=lambda tools: [settings.k, settings.seed, [m.name for m in methods], scored, origins(settings)],
            repeatable=True,
            checks=(checks.MEASURES_IN_RANGE,),
            version="5",
            kinds=("parquet",),
        ),
        *(
            [
                Recipe(
                    key="answer_scores",
                    build=build_answer_scores,
                    description="Exact match and F1 of every answering method, with interval, coverage, cost and test "
                    "against answering without retrieval.",
                    group=GROUP,
                    deps=("answers", "questions"),
                    partitioned=False,
                    settings=lambda tools: tools.settings.seed,
                    kinds=("parquet",),
                    version="2",
                )
            ]
            if combinations(settings)
            else []
        ),
        Recipe(
            key="history",
            build=build_history,
            description="Scores by date, and whether they are significantly lower than the last accepted ones.",
            group=GROUP,
            deps=("scores",),
            partitioned=False,
            settings=lambda tools: [configuration(tools.settings)],
            repeatable=True,
            irreplaceable=True,
            checks=(checks.NO_SIGNIFICANT_DROP, checks.NOTHING_LOST),
            kinds=("parquet",),
            version="3",
        ),
        Recipe(
            key="report",
            build=build_report,
            description="All measurements as one HTML page: leaderboards, curves, history, wins and losses.",
            group=GROUP,
            deps=(
                "scores",
                "runs",
                "questions",
                "documents",
                "history",
                "method",
                *(MODELS.values() if settings.trains_routers else ()),
                *(("answer_scores",) if combinations(settings) else ()),
            ),
            partitioned=False,
            settings=lambda tools: shown_configuration(tools.settings),
            repeatable=True,
            kinds=("html",),
            version="5",
        ),
    ]
