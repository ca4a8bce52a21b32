"""The command `mog scores`, and the leaderboard that `mog run` prints."""

from __future__ import annotations

import json

import click

from mog_assets import config, registry
from mog_assets.cli.common import UNMEASURED, config_option, echo, guarded, print_table, settings_of
from mog_assets.cli.questions import print_question_sets
from mog_assets.resources.errors import ConfigError


@click.command()
@config_option
@click.option("--all", "every", is_flag=True, help="Print every method, not only the most important ones.")
@click.option("--json", "as_json", is_flag=True, help="Print every measure of every method as JSON.")
@click.option("--answers", is_flag=True, help="With --json: the scores of answers, not of retrieval.")
@guarded
def scores(path: str | None, every: bool, as_json: bool, answers: bool) -> None:
    """Print which method to use, and the latest scores of the most important methods."""
    from mog_assets.resources.store import Store

    settings = settings_of(path)
    if not settings.tests:
        # Not an error: a project without questions can be searched.
        echo("[]" if as_json else f"{UNMEASURED[0].upper()}{UNMEASURED[1:]}.")
        return
    if answers and settings.answering.methods == []:
        raise ConfigError("--answers: answering.methods of this project is empty: name an answering method there")
    stored = Store(settings.home).read("answer_scores" if answers else "scores")
    if as_json:
        import pandas as pd

        frame = pd.read_parquet(stored.path("scores.parquet")).astype(object)
        rows = frame.where(frame.notna(), None).to_dict("records")
        echo(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        print_question_sets(settings)
        print_leaderboard(settings, every)


def print_leaderboard(settings: config.Settings, every: bool = False) -> None:
    """Print the best method of each question set, and the scores of the most important methods, or of all."""
    import pandas as pd

    from mog_assets.build.measuring import changed_since, read_documents
    from mog_assets.build.tools import Tools
    from mog_assets.evaluate.answers import answer_board
    from mog_assets.evaluate.leaderboard import MOST_ROWS, leaderboards
    from mog_assets.evaluate.measures import boards, headline_measures
    from mog_assets.evaluate.scores import leaderboard, on_documents
    from mog_assets.questions.sources import board_suffix, origins
    from mog_assets.resources.store import Store

    store = Store(settings.home)
    if (stored := store.find("scores")) is not None:
        scores, per_question = (pd.read_parquet(stored.path(f"{name}.parquet")) for name in ("scores", "per_question"))
        chosen = store.find("method")
        default = str(chosen.manifest.info["method"]) if chosen else None
        if chosen:
            echo(f"`auto` is `{default}`: {chosen.manifest.info['why']}.")
        if lag := changed_since(stored, read_documents(Tools(settings), store.find)):
            documents = "document" if lag == 1 else "documents"
            echo(f"These scores are of {lag:,} changed {documents} ago; `mog run --evaluate` measures now.")
        made_by = origins(settings)
        for board in leaderboards(scores, per_question, default, settings.k, settings.seed, made_by):
            echo(board.advice)
            if board.shows:
                echo(board.shows)
            if not every:
                print_table(board.title, board.rows)
        for key, part in boards(scores, made_by) if every else ():
            title = f"{key.name}{board_suffix(key.question_set, made_by)}: all methods, value [95 % interval]"
            print_table(title, leaderboard(part, headline_measures(settings.k)))
        if not every and len(scores):
            echo("`mog scores --all` prints all methods and measures.")
    if (stored := store.find("answer_scores")) is not None:
        scores = pd.read_parquet(stored.path("scores.parquet"))
        # An empty table has no columns.
        for name in sorted(set(scores["question_set"])) if len(scores) else ():
            part = scores[scores["question_set"] == name]
            counts = on_documents(int(part["n"].max()), int(part["documents"].max()))
            rows = answer_board(scores, name)[: None if every else MOST_ROWS]
            print_table(f"{name}, answers: {counts}, value [95 % interval]", rows)


registry.COMMANDS.register("scores", scores)
