"""The assets `history` and `report`."""

from __future__ import annotations

import pandas as pd

from mog_assets.answer.answerers import answer_tables
from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.evaluate.configuration import shown_configuration
from mog_assets.evaluate.leaderboard import leaderboards
from mog_assets.evaluate.measures import boards, headline_measures
from mog_assets.evaluate.runs_assets import scored_questions
from mog_assets.evaluate.scores import leaderboard
from mog_assets.plugins.report import checks, parts, plots
from mog_assets.plugins.report.history_assets import build_history, configuration
from mog_assets.plugins.report.page import Part, environment, render
from mog_assets.plugins.report.shares import SHARES
from mog_assets.questions.sources import board_suffix, origins


def build_report(work: Work) -> None:
    """Write all measurements as one page."""
    settings, stored, past = work.settings, work.input("scores"), work.input("history")
    answered = work.input("answer_scores") if settings.answering.methods else None
    inputs = {key: work.input(key).manifest.version for key in work.recipe.deps if key != "documents"}
    questions = scored_questions(work)
    corpora = dict.fromkeys(corpus for name in questions for corpus in settings.question_sets[name].corpora)
    inputs |= {f"documents of {name}": work.input("documents", name).manifest.version for name in corpora}
    scores, table = pd.read_parquet(stored.path("scores.parquet")), pd.read_parquet(past.path("history.parquet"))
    made_by, shown = origins(settings), shown_configuration(settings)
    chosen, items = work.input("method").manifest.info, work.input("known_items").manifest.info["rows"]
    counted = parts.of_one(pd.read_parquet(work.input("runs").path(f"{SHARES}.parquet")), chosen["method"])
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
        measured = pd.read_parquet(stored.path("per_question.parquet"))
        leads = leaderboards(scores, measured, chosen["method"], settings.k, settings.seed, made_by)
        answers = pd.read_parquet(answered.path("scores.parquet")) if answered else None
        page = [
            *parts.of_scores(scores, settings.k, made_by),
            parts.of_groups(scores, measured, questions, settings.seed),
            parts.of_shares(counted),
            parts.of_answers(answers, tables),
            parts.of_known_items(items),
            parts.of_history(table, made_by),
            Part(
                "Made with",
                f"`auto` is `{chosen['method']}`: {chosen['why']}. Retriever {settings.retriever}, k_r = "
                f"{settings.k_r}, k = {settings.k}, levels {settings.levels}, chunker {settings.chunker.name}, finest "
                f"{settings.finest_chars} characters, encoder {shown['encoder']['model']}, seed {settings.seed}.",
                {"": [{"what": name, "value": value} for name, value in facts]},
            ),
        ]
        with work.writing(path) as temporary:
            temporary.write_text(render(leads[0].advice if leads else "", page, shown), encoding="utf-8")
    work.recomputed["pages written"] = int(not exists)
    work.counts["rows"] = len(scores)
    work.shown["report"] = f"`{path}`"
    for board, part in boards(scores, made_by):
        title = f"leaderboard: {board.name}{board_suffix(board.question_set, made_by)}"
        work.show_table(title, leaderboard(part, headline_measures(settings.k)))
    if len(counted):
        work.show_plot(f"levels and retrievers that counted: {counted.attrs['method']}", plots.shares(counted))


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
            version="9",
        ),
    ]
