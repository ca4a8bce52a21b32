"""The command `score-mirage`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mog_assets import registry
from mog_assets.cli.common import echo, guarded


@click.command("score-mirage")
@click.argument("predictions", type=click.Path(path_type=Path))
@click.option("--questions", type=click.Path(path_type=Path), required=True, help="MIRAGE's questions.")
@click.option("--json", "as_json", is_flag=True, help="Print set, n, accuracy and se as JSON.")
@guarded
def score_mirage(predictions: Path, questions: Path, as_json: bool) -> None:
    """Score PREDICTIONS, lines of {"id", "output"}, as the MIRAGE benchmark does."""
    from dataclasses import asdict

    from mog_assets.papers.briefcontext import mirage

    answers = mirage.read_answers(questions)
    rows = mirage.score(mirage.read_outputs(predictions, answers), answers)
    if as_json:
        echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    for row in rows:
        echo(f"{row.set:10s} {row.n:6,d} questions  accuracy {row.accuracy:.4f} ± {row.se:.4f}")


registry.COMMANDS.register("score-mirage", score_mirage)
