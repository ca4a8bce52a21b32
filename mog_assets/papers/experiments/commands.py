"""The papers' experiments: `experiment`, `results`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mog_assets import config, registry
from mog_assets.build.stopping import on_stop, stoppable
from mog_assets.cli.common import FAILED, check_measured, config_option, echo, guarded, settings_of
from mog_assets.resources.errors import ConfigError, MogError

if TYPE_CHECKING:
    from mog_assets.build.runner import RunReport


@click.command()
@click.argument("names", nargs=-1)
@config_option
@click.option("--all", "every", is_flag=True, help="Every experiment that this project supports.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@guarded
def experiment(names: tuple[str, ...], path: str | None, every: bool, as_json: bool) -> None:
    """Run the experiments NAMES and print their results; without NAMES, list them."""
    from mog_assets.papers.experiments.assets import offered

    settings = settings_of(path)
    experiments = {experiment.name: experiment for experiment in offered(settings)}
    if not experiments:
        check_measured(settings, "experiment")
    if unknown := [name for name in names if name not in experiments]:
        raise ConfigError(f"NAMES: expected one or more of {', '.join(experiments) or 'none'}, got {unknown[0]!r}")
    wanted = list(experiments) if every else list(dict.fromkeys(names))
    if not wanted:
        _list_experiments(settings, list(experiments.values()), as_json)
        return
    command = "mog experiment " + ("--all" if every else " ".join(wanted))
    stoppable(lambda: _experiment(settings, wanted, as_json), settings.home, command)


def do(settings: config.Settings, names: Sequence[str]) -> RunReport:
    """Run experiments, and build what is stale of all that they rest on."""
    from mog_assets.build.plan import graph, needed
    from mog_assets.build.runner import run
    from mog_assets.papers.experiments.assets import PREFIX

    return run(settings, select=needed(graph(settings), [f"{PREFIX}{name}" for name in names]))


def _experiment(settings: config.Settings, wanted: Sequence[str], as_json: bool) -> None:
    from mog_assets.build.plan import up_to_date
    from mog_assets.papers.experiments.assets import PREFIX, findings
    from mog_assets.resources.console import clear, displayed
    from mog_assets.resources.store import Store

    with displayed(), on_stop(clear):
        report = do(settings, wanted)
    store, states = Store(settings.home), up_to_date(settings, [f"{PREFIX}{name}" for name in wanted])
    done = [name for name in wanted if states[f"{PREFIX}{name}"] == "up to date"]
    results = [result for name in done if (result := findings(store, name)) is not None]
    if as_json:
        echo(json.dumps([result.to_json() for result in results], ensure_ascii=False, indent=1))
    else:
        _print_results(results)
    for failure in report.failures:
        echo(f"mog: {failure}", err=True)
    if report.failures:
        sys.exit(FAILED)


def _list_experiments(settings: config.Settings, experiments: Sequence[Any], as_json: bool) -> None:
    from rich.table import Table

    from mog_assets.build.plan import up_to_date
    from mog_assets.papers.experiments.assets import PREFIX
    from mog_assets.resources.console import EscapedConsole

    states = up_to_date(settings, [f"{PREFIX}{one.name}" for one in experiments])
    rows = [
        {"name": e.name, "title": e.title, "asks": e.asks, "state": states[f"{PREFIX}{e.name}"]} for e in experiments
    ]
    if as_json:
        echo(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    table = Table("experiment", "state", "asks")
    for row in rows:
        table.add_row(row["name"], row["state"], row["asks"])
    EscapedConsole(160).print(table)


def _print_results(results: Sequence[Any]) -> None:
    from rich.table import Table

    from mog_assets.resources.console import EscapedConsole

    console = EscapedConsole()
    for result in results:
        console.rule(result.title)
        console.print(result.asks)
        for title, rows in result.tables.items():
            head = list(dict.fromkeys(name for row in rows for name in row))
            table = Table(*head, title=title)
            for row in rows:
                cells = (row.get(name) for name in head)
                table.add_row(*(f"{c:.4g}" if isinstance(c, float) else str("" if c is None else c) for c in cells))
            console.print(table)
        for claim in result.claims:
            console.print(claim["verdict"], style="bold", end="")
            console.print(f": {claim['claim']} ({claim['paper']})")
            console.print(f"  {claim['because']}")


@click.command()
@click.argument("configs", nargs=-1, metavar="[CONFIG]...")
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="File to write. [default: standard output]")
@guarded
def results(configs: tuple[str, ...], to: Path | None) -> None:
    """Write the results of the experiments of one or several configurations as one Markdown page."""
    from mog_assets.build.plan import up_to_date
    from mog_assets.papers.experiments.assets import PREFIX, offered, project
    from mog_assets.papers.experiments.results import markdown
    from mog_assets.resources.files import atomic

    projects = []
    for path in configs or (config.file(),):
        settings = config.load(path)
        experiments = offered(settings)
        if not experiments:
            check_measured(settings, f"results of {path}")
        states = up_to_date(settings, [f"{PREFIX}{one.name}" for one in experiments])
        if stale := [key.removeprefix(PREFIX) for key, state in states.items() if state == "stale"]:
            raise MogError(
                f"{path}: expected experiments that are up to date, but something has changed since "
                f"{', '.join(stale)} were run: run `mog experiment {' '.join(stale)}`"
            )
        file = Path(path).resolve()
        projects.append(project(file.parent.name if file.stem == "mog" else file.stem, settings))
    names = [os.path.relpath(path) for path in configs]
    text = markdown(projects, " ".join(["mog results", *names, *(["--to", str(to)] if to else [])]))
    if to is None:
        echo(text, nl=False)
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    with atomic(to, private=False) as temporary:
        temporary.write_text(text, encoding="utf-8")
    echo(f"{to}: {sum(len(p.results) for p in projects)} experiments of {len(projects)} projects")


registry.COMMANDS.register("experiment", experiment)
registry.COMMANDS.register("results", results)
