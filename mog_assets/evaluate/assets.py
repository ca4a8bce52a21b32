"""Assets of the evaluation stage: `runs`, `scores`, `history`, `report`."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mog_assets.answer.answerers import answer_tables
from mog_assets.answer.notation import combinations
from mog_assets.answer.rows import read_answers
from mog_assets.build.recipe import Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.evaluate import browse, checks, plots
from mog_assets.evaluate.agreement import AGREEMENT, agreement, points, sentences
from mog_assets.evaluate.answers import answer_board, mark, score_answers
from mog_assets.evaluate.configuration import configuration, shown_configuration
from mog_assets.evaluate.history_assets import build_history
from mog_assets.evaluate.leaderboard import leaderboards
from mog_assets.evaluate.measures import (
    LEADS,
    Board,
    boards,
    evaluate,
    headline_measures,
    measure_names,
    measure_versions,
)
from mog_assets.evaluate.report import environment, render
from mog_assets.evaluate.report_charts import Report
from mog_assets.evaluate.runs import RUNS, read_runs
from mog_assets.evaluate.runs_assets import build_runs, methods_of, orders_candidates, scored_questions
from mog_assets.evaluate.scores import leaderboard, score
from mog_assets.evaluate.shares import SHARES, of_one
from mog_assets.questions.origins import origins, said
from mog_assets.questions.sets import load_questions
from mog_assets.search.methods import further_settings, limited, needs
from mog_assets.search.relations import versions

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
        made_by, corpora = origins(settings), {name: q.corpora for name, q in settings.question_sets.items()}
        compared = agreement(measured, kinds, made_by, corpora, settings.seed)
    # Evidence may change while the runs do not.
    made_of = [runs.manifest.version, work.input("questions").manifest.version, work.recipe.settings(work.tools)]
    for name, frame in (("per_question.parquet", measured), ("scores.parquet", scores), (AGREEMENT, compared)):
        path, exists = work.file(name, *made_of)
        if not exists:
            with work.writing(path) as temporary:
                frame.to_parquet(temporary)
    work.recomputed["rankings measured"] = len(measured)
    work.counts |= {"methods": len(methods), "measures": len(measure_names(settings.k)), "rows": len(scores)}
    for name in sorted(set(scores["question_set"])):
        work.counts[f"{name}: questions"] = int(scores[scores["question_set"] == name]["n"].max())
    for board, part in boards(scores, made_by):
        title = f"leaderboard: {board.name}{said(board.question_set, made_by)}"
        work.show_table(title, leaderboard(part, headline_measures(settings.k)))
        if board.evidence == "spans":
            work.show_plot(f"ER against context: {board.name}", plots.er_against_cost(part, board.question_set))
    for row, sentence in zip(compared.to_dict("records"), sentences(compared), strict=True):
        name = f"generated and real questions: {row['made_question_set']} and {row['question_set']}, {row['split']}"
        work.shown[name] = sentence
        work.show_plot(f"{name}, by method", plots.agreement(row, points(row, scores)))


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
    for name, frame in (("per_question", marks), ("scores", scores)):
        path, exists = work.file(
            f"{name}.parquet", stored.manifest.version, question_sets.manifest.version, work.settings.seed
        )
        if not exists:
            with work.writing(path) as temporary:
                frame.to_parquet(temporary)
    work.recomputed["answers marked"] = len(marks)
    work.counts |= {"rows": len(scores), "answers": len(marks)}
    for name in names:
        work.show_table(f"answers: {name}", answer_board(scores, name))
        work.show_plot(f"accuracy against reading: {name}", plots.accuracy_against_cost(scores, name))
    for table in answer_tables():
        work.info[table.name] = table.rows(answers, questions) if len(answers) else []
        if work.info[table.name]:
            work.show_table(table.title, work.info[table.name])


def build_report(work: Work) -> None:
    """Write all measurements as one page."""
    settings, stored, past = work.settings, work.input("scores"), work.input("history")
    answered = work.input("answer_scores") if settings.answering.methods else None
    inputs = {key: work.input(key).manifest.version for key in work.recipe.deps if key != "documents"}
    corpora = dict.fromkeys(
        corpus for name in scored_questions(work) for corpus in settings.question_sets[name].corpora
    )
    inputs |= {f"documents of {name}": work.input("documents", name).manifest.version for name in corpora}
    scores, compared = (pd.read_parquet(stored.path(name)) for name in ("scores.parquet", AGREEMENT))
    table, made_by = pd.read_parquet(past.path("history.parquet")), origins(settings)
    configuration = shown_configuration(settings)
    chosen, items = work.input("method").manifest.info, work.input("known_items").manifest.info["rows"]
    counted = of_one(pd.read_parquet(work.input("runs").path(SHARES)), chosen["method"])
    tables = [(table, answered.manifest.info.get(table.name, [])) for table in answer_tables()] if answered else []
    facts = [
        *([("scores of", f"{table['time'].max():%Y-%m-%d %H:%M} UTC")] if len(table) else []),
        ("encoder", f"{configuration['encoder']['model']}, {work.tools.encoder.fingerprint[:12]}"),
        ("seed", str(settings.seed)),
        *environment(),
        *((f"version of {key}", version[:12]) for key, version in inputs.items()),
    ]
    # Tables are in a manifest, so no file version shows that they have changed.
    path, exists = work.file("report.html", inputs, configuration, facts, *(rows for _, rows in tables), items)
    if not exists:
        main, groups = _browsed(work, scores)
        measured, of = (
            pd.read_parquet(stored.path("per_question.parquet")),
            (chosen["method"], settings.k, settings.seed),
        )
        lead = next(iter(leaderboards(scores, measured, *of, made_by)), None)
        of_bars = (
            [(row["method"], next(v for k, v in row.items() if k in LEADS.values())) for row in lead.rows]
            if lead
            else []
        )
        page = Report(
            scores=scores,
            # Further lengths of the context are in a chart, and a choice away.
            headline=[name for name in headline_measures(settings.k) if name not in ("ER@2000", "ER@4000", "ER@8000")],
            advice=lead.advice if lead else "",
            bars=[(method, float(said.split()[0]), said) for method, said in of_bars],
            notes=[
                f"`auto` is `{chosen['method']}`: {chosen['why']}.",
                f"Retriever {settings.retriever}, k_r = {settings.k_r}, k = {settings.k}, levels {settings.levels}, "
                f"chunker {settings.chunker.name}, finest {settings.finest_chars} characters, "
                f"encoder {configuration['encoder']['model']}, "
                f"seed {settings.seed}.",
                "The best fixed level is chosen on the questions it is scored on, which favours it.",
            ],
            main=main,
            groups=groups,
            shares=counted,
            known_items=items,
            answers=pd.read_parquet(answered.path("scores.parquet")) if answered else None,
            answer_tables=tables,
            history=table,
            facts=facts,
            configuration=configuration,
            origins=made_by,
            agreement=compared,
        )
        with work.writing(path) as temporary:
            temporary.write_text(render(page), encoding="utf-8")
    work.recomputed["pages written"] = int(not exists)
    work.counts["rows"] = len(scores)
    work.shown["report"] = f"`{path}`"
    for board, part in boards(scores, made_by):
        title = f"leaderboard: {board.name}{said(board.question_set, made_by)}"
        work.show_table(title, leaderboard(part, headline_measures(settings.k)))
        work.show_plot(f"all methods: {board.name}", plots.leaderboard_bars(part, board.question_set))
    if len(counted):
        work.show_plot(f"levels and retrievers that counted: {counted.attrs['method']}", plots.shares(counted))


def _browsed(work: Work, scores: pd.DataFrame) -> tuple[dict[Board, list[str]], dict[Board, pd.DataFrame]]:
    """Main methods and groups of questions, by question set and split."""
    settings, questions = work.settings, scored_questions(work)
    per_question = pd.read_parquet(work.input("scores").path("per_question.parquet"))
    main, groups, scored = {}, {}, dict(boards(scores))
    for board, part in boards(per_question):
        main[board] = browse.main_methods(scored[board])
        measures = [name for name in headline_measures(settings.k) if name in set(scored[board]["measure"])]
        groups[board] = browse.by_group(part, questions[board.question_set], main[board], measures, settings.seed)
    return main, groups


def _measured(settings: Settings) -> list[Any]:
    """What is ranked: methods, with what they search, and the questions of each set."""
    methods = [[method.name, method.retriever] for method in methods_of(settings)]
    return [methods, {name: [q.corpora, q.test] for name, q in settings.question_sets.items()}]


def _of_runs(tools: Tools) -> list[Any]:
    """Settings that rankings depend on."""
    settings = tools.settings
    searches = [settings.retriever, settings.bm25.model_dump(), settings.k, settings.k_r, *further_settings(settings)]
    made = [tools.encoder.identity, versions(settings), settings.seed]
    return [_measured(settings), *searches, *made]


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage; none without test questions."""
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
            version="8",
            kinds=("parquet",),
            pool="measuring",
        ),
        Recipe(
            key="scores",
            build=build_scores,
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
            settings=lambda tools: [configuration(tools.settings), origins(tools.settings)],
            repeatable=True,
            checks=(checks.NO_SIGNIFICANT_DROP, checks.NOTHING_LOST),
            kinds=("parquet",),
            version="4",
        ),
        Recipe(
            key="report",
            build=build_report,
            description="All measurements as one HTML page: leaderboards, curves, history.",
            is_result=True,
            group=GROUP,
            deps=(
                "scores",
                "runs",
                "questions",
                "documents",
                "history",
                "method",
                "known_items",
                *(("answer_scores",) if settings.answering.methods else ()),
            ),
            partitioned=False,
            settings=lambda tools: shown_configuration(tools.settings),
            repeatable=True,
            kinds=("html",),
            version="8",
        ),
    ]
