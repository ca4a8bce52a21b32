"""The command `score-mirage`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mog_assets import registry
from mog_assets.cli.common import config_option, echo, guarded, settings_of
from mog_assets.resources.errors import ConfigError


@click.command("score-mirage")
@click.argument("predictions", type=click.Path(path_type=Path))
@config_option
@click.option("--questions", type=click.Path(path_type=Path), help="MIRAGE's questions. [default: the set `mirage`]")
@click.option("--json", "as_json", is_flag=True, help="Print set, n, accuracy and se as JSON.")
@guarded
def score_mirage(predictions: Path, path: str | None, questions: Path | None, as_json: bool) -> None:
    """Score PREDICTIONS, lines of {"id", "output"}, as the MIRAGE benchmark does."""
    from dataclasses import asdict

    from mog_assets.papers.briefcontext import mirage

    answers = mirage.read_answers(questions or _mirage_questions(path))
    rows = mirage.score(mirage.read_outputs(predictions, answers), answers)
    if as_json:
        echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    for row in rows:
        echo(f"{row.set:10s} {row.n:6,d} questions  accuracy {row.accuracy:.4f} ± {row.se:.4f}")


# Where development machines keep the public data sets.
_SHARED_MIRAGE = Path("../shared/data/mirage/questions.jsonl.gz")


def _mirage_questions(path: str | None) -> Path:
    """Return the question set `mirage` of the configuration, else the shared one."""
    try:
        configured = settings_of(path).question_sets.get("mirage")
    except ConfigError:
        if path:
            raise
        configured = None
    if configured is not None and configured.path is not None:
        return configured.path
    if _SHARED_MIRAGE.exists():
        return _SHARED_MIRAGE
    raise ConfigError("--questions: expected MIRAGE's questions, or a question set `mirage` in mog.yaml, got neither")


registry.COMMANDS.register("score-mirage", score_mirage)
