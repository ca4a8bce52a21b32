"""Assets of the evaluation stage: `runs`, `scores`, `answer_scores`."""

from __future__ import annotations

from typing import Any

from mog_assets.answer.answerers import answer_tables
from mog_assets.answer.notation import combinations
from mog_assets.answer.rows import read_answers
from mog_assets.build.recipe import Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.evaluate import checks, plots
from mog_assets.evaluate.answers import answer_board, mark, score_answers
from mog_assets.evaluate.measures import (
    boards,
    evaluate,
    headline_measures,
    measure_names,
    measure_versions,
)
from mog_assets.evaluate.runs import RUNS, read_runs
from mog_assets.evaluate.runs_assets import build_runs, methods_of, orders_candidates, scored_questions
from mog_assets.evaluate.scores import leaderboard, score
from mog_assets.questions.sets import load_questions
from mog_assets.questions.sources import board_suffix, origins
from mog_assets.registry import RUN_TABLES
from mog_assets.search.experts import versions
from mog_assets.search.methods import further_settings, limited, needs

GROUP = "evaluation"


def build_scores(work: Work) -> None:
    """Measure every run, with intervals and tests against the best fixed level."""
    settings, runs = work.settings, work.input("runs")
    table = read_runs(runs.path(RUNS))
    methods = methods_of(settings)
    with work.progress(len(methods), "methods measured") as advance:
        measured = evaluate(table, scored_questions(work), settings.k, advance)
    # The baselines are fixed levels without a limit.
    kinds = {m.name: (m.retriever or "", limited(m.kind, m.limit)) for m in methods}
    with work.progress(0, "significance tested"):
        scores = score(measured, settings.k, settings.seed, kinds)
    # Evidence may change while the runs do not.
    made_of = [runs.manifest.version, work.input("questions").manifest.version, work.recipe.settings(work.tools)]
    for name, frame in {"per_question": measured, "scores": scores}.items():
        work.write(f"{name}.parquet", made_of, frame.to_parquet)
    work.recomputed["rankings measured"] = len(measured)
    work.counts |= {"methods": len(methods), "measures": len(measure_names(settings.k)), "rows": len(scores)}
    for name in sorted(set(scores["question_set"])):
        work.counts[f"{name}: questions"] = int(scores[scores["question_set"] == name]["n"].max())
    made_by = origins(settings)
    for board, part in boards(scores, made_by):
        title = f"leaderboard: {board.name}{board_suffix(board.question_set, made_by)}"
        work.show_table(title, leaderboard(part, headline_measures(settings.k)))
        if board.evidence == "spans":
            work.show_plot(f"ER against context: {board.name}", plots.er_against_cost(part, board.question_set))


def build_answer_scores(work: Work) -> None:
    """Mark every answer, with intervals and tests against answering without retrieval."""
    stored = work.input("answers")
    answers = read_answers(stored.path, stored.names())
    names = sorted(set(answers["question_set"])) if len(answers) else []
    question_sets = work.input("questions")
    questions = {name: load_questions(question_sets.path(f"{name}.parquet")) for name in names}
    marks = mark(answers, questions)
    with work.progress(0, "significance tested"):
        scores = score_answers(marks, work.settings.seed) if len(marks) else marks
    made_of = [stored.manifest.version, question_sets.manifest.version, work.settings.seed]
    for name, frame in (("per_question", marks), ("scores", scores)):
        work.write(f"{name}.parquet", made_of, frame.to_parquet)
    work.recomputed["answers marked"] = len(marks)
    work.counts |= {"rows": len(scores), "answers": len(marks)}
    for name in names:
        work.show_table(f"answers: {name}", answer_board(scores, name))
        work.show_plot(f"accuracy against reading: {name}", plots.accuracy_against_cost(scores, name))
    for table in answer_tables():
        work.info[table.name] = table.rows(answers, questions) if len(answers) else []
        if work.info[table.name]:
            work.show_table(table.title, work.info[table.name])


def _measured(settings: Settings) -> list[Any]:
    """Return what is ranked: methods, with what they search, and the questions of each set."""
    methods = [[method.name, method.retriever] for method in methods_of(settings)]
    return [methods, {name: [q.corpora, q.test] for name, q in settings.question_sets.items()}]


def _of_runs(tools: Tools) -> list[Any]:
    """Return settings that rankings depend on."""
    settings = tools.settings
    searches = [settings.retriever, settings.bm25.model_dump(), settings.k, settings.k_r, *further_settings(settings)]
    basis = [tools.encoder.identity, versions(settings), settings.seed]
    return [_measured(settings), *searches, *basis, list(RUN_TABLES)]


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage; none without test questions."""
    if not settings.tests:
        return []
    methods = methods_of(settings)
    return [
        Recipe(
            key="runs",
            build=build_runs,
            description="Ranked passages of every method for every test question.",
            group=GROUP,
            deps=(
                "questions",
                *needs(methods, settings).keys,
                *(("candidates",) if orders_candidates(methods) else ()),
            ),
            partitioned=False,
            settings=_of_runs,
            repeatable=True,
            checks=(checks.SAME_AGAIN,),
            version="9",
            kinds=("parquet",),
            pool="measuring",
        ),
        Recipe(
            key="scores",
            build=build_scores,
            is_result=True,
            description="Every measure of every method, with interval, coverage, test against the best fixed level.",
            group=GROUP,
            deps=("runs", "questions"),
            partitioned=False,
            settings=lambda tools: [
                tools.settings.k,
                tools.settings.seed,
                _measured(tools.settings),
                origins(tools.settings),
                measure_versions(),
            ],
            repeatable=True,
            checks=(checks.MEASURES_IN_RANGE,),
            version="7",
            kinds=("parquet",),
        ),
        *(
            [
                Recipe(
                    key="answer_scores",
                    build=build_answer_scores,
                    description="Exact match and F1 of every answering method, with interval, coverage, cost and test "
                    "against answering without retrieval.",
                    is_result=bool(settings.answering.methods),
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
    ]
