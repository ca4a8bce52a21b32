"""The commands `mog plan`, `mog doctor` and `mog prune`."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import asdict

import click

from mog_assets.cli.build import chosen, selection
from mog_assets.cli.common import FAILED, config_option, echo, guarded, settings_of
from mog_assets.cli.findings import OK, PROBLEM, WARNING
from mog_assets.config import check_corpora
from mog_assets.registry import COMMANDS


@click.command()
@config_option
@selection
@click.option("--json", "as_json", is_flag=True, help="Print the assets as JSON.")
@guarded
def plan(
    path: str | None, corpora: tuple[str, ...], select: tuple[str, ...], every: bool, evaluate: bool, as_json: bool
) -> None:
    """Print what `mog run` would build and why, and build nothing.

    An asset whose inputs are built before it is built again only if one of them changes.
    """
    from rich.table import Table

    from mog_assets.build.plan import due, graph
    from mog_assets.build.tools import Tools
    from mog_assets.plugins.upkeep.planning import planned
    from mog_assets.resources.console import EscapedConsole
    from mog_assets.resources.progress import duration

    settings = settings_of(path)
    named = chosen(settings, select, every)
    if named:
        from mog_assets.build.runner import selected

        keys = selected(settings, graph(settings), named)
    else:
        keys = due(Tools(settings), graph(settings), evaluate)
    check_corpora(settings, corpora)
    rows = planned(settings, keys, list(corpora or settings.corpora))
    if as_json:
        echo(json.dumps([vars(row) for row in rows], indent=1))
        return
    if not rows:
        echo("Everything is up to date: `mog run` would build nothing.")
        return
    table = Table("asset", "corpora", "why", "took last time")
    for asset, steps in itertools.groupby(rows, key=lambda row: row.asset):
        parts = list(steps)
        seconds = sum(row.seconds for row in parts)
        reasons = "; ".join(dict.fromkeys(row.why for row in parts))
        many = sum(row.corpus is not None for row in parts)
        table.add_row(asset, str(many or ""), reasons, duration(seconds) if seconds else "")
    EscapedConsole(160).print(table)


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print item, state, finding and remedy of each check as JSON.")
@guarded
def doctor(path: str | None, as_json: bool) -> None:
    """Check the installation and the configuration; exit with code 1 if there is a problem."""
    from mog_assets.plugins.upkeep.doctor import examine

    findings = []
    for finding in examine(path):
        findings.append(finding)
        if not as_json:
            colour = {OK: "green", WARNING: "yellow", PROBLEM: "red"}[finding.state]
            echo(f"{finding.state:8}", nl=False, fg=colour)
            echo(str(finding)[8:])
    if as_json:
        echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    if any(finding.state == PROBLEM for finding in findings):
        sys.exit(FAILED)


@click.command()
@config_option
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and how many bytes, without removing it.")
@click.option("--answers", is_flag=True, help="Also remove cached answers of language models that may have cost money.")
@click.option(
    "--runs-older-than", "days", type=click.IntRange(min=0), help="Also remove Dagster runs started DAYS or more ago."
)
@guarded
def prune(path: str | None, dry_run: bool, answers: bool, days: int | None) -> None:
    """Remove data that is no longer needed: old vectors, unused files of the store.

    Nothing has to be rebuilt afterwards. Runs with the latest materialisation of an asset are kept.
    """
    from mog_assets.plugins.upkeep.pruning import alone, removable

    settings = settings_of(path)
    verb = "would remove" if dry_run else "removed"
    with alone(settings):
        leftovers = removable(settings, answers)
        for one in leftovers:
            if not dry_run:
                one.remove()
            echo(f"{verb} {one.what}: {one.bytes:,} bytes")
    echo(f"{verb} {sum(one.bytes for one in leftovers):,} bytes")
    if days is not None:
        from mog_assets.build.runner import instance
        from mog_assets.plugins.upkeep.runs import remove_old_runs

        with instance(settings) as opened:
            echo(f"{verb} {remove_old_runs(opened, days, dry_run):,} Dagster runs")


COMMANDS.register("plan", plan)
COMMANDS.register("doctor", doctor)
COMMANDS.register("prune", prune)
