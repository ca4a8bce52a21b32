"""The assets `history` and `report`."""

from __future__ import annotations

import pandas as pd

from mog_assets.answer.answerers import answer_tables
from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.evaluate.configuration import shown_configuration
from mog_assets.evaluate.leaderboard import leaderboards
from mog_assets.evaluate.measures import LEADS, Board, boards, headline_measures
from mog_assets.evaluate.runs_assets import scored_questions
from mog_assets.evaluate.scores import leaderboard
from mog_assets.plugins.report import browse, checks, plots
from mog_assets.plugins.report.charts import Report
from mog_assets.plugins.report.history_assets import build_history, configuration
from mog_assets.plugins.report.page import environment, render
from mog_assets.plugins.report.shares import SHARES
from mog_assets.questions.sources import board_suffix, origins


def build_report(work: Work) -> None:
    """Write all measurements as one page."""
    settings, stored, past = work.settings, work.input("scores"), work.input("history")
    answered = work.input("answer_scores") if settings.answering.methods else None
    inputs = {key: work.input(key).manifest.version for key in work.recipe.deps if key != "documents"}
    corpora = dict.fromkeys(
        corpus for name in scored_questions(work) for corpus in settings.question_sets[name].corpora
    )
    inputs |= {f"documents of {name}": work.input("documents", name).manifest.version for name in corpora}
    scores = pd.read_parquet(stored.path("scores.parquet"))
    table, made_by = pd.read_parquet(past.path("history.parquet")), origins(settings)
    shown = shown_configuration(settings)
    chosen, items = work.input("method").manifest.info, work.input("known_items").manifest.info["rows"]
    counted = browse.of_one(pd.read_parquet(work.input("runs").path(f"{SHARES}.parquet")), chosen["method"])
    tables = [(table, answered.manifest.info.get(table.name, [])) for table in answer_tables()] if answered else []
    facts = [
        *([("scores of", f"{table['time'].max():%Y-%m-%d %H:%M} UTC")] if len(table) else []),
        ("encoder", f"{shown['encoder']['model']}, {work.tools.encoder.fingerprint[:12]}"),
        ("seed", str(settings.seed)),
        *environment(),
        *((f"version of {key}", version[:12]) for key, version in inputs.items()),
    ]
    # Tables are in a manifest, so no file version shows that they have changed.
    path, exists = work.file("report.html", inputs, shown, facts, *(rows for _, rows in tables), items)
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
            bars=[(method, float(label.split()[0]), label) for method, label in of_bars],
            notes=[
                f"`auto` is `{chosen['method']}`: {chosen['why']}.",
                f"Retriever {settings.retriever}, k_r = {settings.k_r}, k = {settings.k}, levels {settings.levels}, "
                f"chunker {settings.chunker.name}, finest {settings.finest_chars} characters, "
                f"encoder {shown['encoder']['model']}, "
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
            configuration=shown,
            origins=made_by,
        )
        with work.writing(path) as temporary:
            temporary.write_text(render(page), encoding="utf-8")
    work.recomputed["pages written"] = int(not exists)
    work.counts["rows"] = len(scores)
    work.shown["report"] = f"`{path}`"
    for board, part in boards(scores, made_by):
        title = f"leaderboard: {board.name}{board_suffix(board.question_set, made_by)}"
        work.show_table(title, leaderboard(part, headline_measures(settings.k)))
        work.show_plot(f"all methods: {board.name}", plots.leaderboard_bars(part, board.question_set))
    if len(counted):
        work.show_plot(f"levels and retrievers that counted: {counted.attrs['method']}", plots.shares(counted))


def _browsed(work: Work, scores: pd.DataFrame) -> tuple[dict[Board, list[str]], dict[Board, pd.DataFrame]]:
    """Return main methods and groups of questions, by question set and split."""
    settings, questions = work.settings, scored_questions(work)
    per_question = pd.read_parquet(work.input("scores").path("per_question.parquet"))
    main, groups, scored = {}, {}, dict(boards(scores))
    for board, part in boards(per_question):
        main[board] = browse.main_methods(scored[board])
        measures = [name for name in headline_measures(settings.k) if name in set(scored[board]["measure"])]
        groups[board] = browse.by_group(part, questions[board.question_set], main[board], measures, settings.seed)
    return main, groups


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of history and report; none without test questions."""
    if not settings.tests:
        return []
    return [
        Recipe(
            key="history",
            build=build_history,
            description="Scores by date, and whether they are significantly lower than the last accepted ones.",
            is_result=True,
            group="evaluation",
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
            page="report.html",
            group="evaluation",
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
