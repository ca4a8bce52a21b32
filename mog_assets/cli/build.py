"""Commands that build and check the artefacts of the graph: `run`, `verify`, `ui`."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import click

from mog_assets import config, registry
from mog_assets.build.stopping import on_stop, stoppable
from mog_assets.cli.common import FAILED, check_builds_here, config_option, echo, guarded, guarded_server, settings_of
from mog_assets.cli.documents import left_out
from mog_assets.cli.measure import print_leaderboard
from mog_assets.cli.questions import print_question_sets
from mog_assets.resources.errors import ConfigError


def selection(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that limit a run."""
    options = (
        click.option("--corpus", "corpora", multiple=True, help="Only this corpus; may be given several times."),
        click.option(
            "--select",
            multiple=True,
            help="Only this asset or selection, and all it rests on (`mentions`, `group:corpus`).",
        ),
        click.option("--all", "every", is_flag=True, help="Every asset, also those that no configured method needs."),
        click.option("--evaluate", is_flag=True, help="Measure, too, even if few documents have changed since."),
    )
    return functools.reduce(lambda done, option: option(done), reversed(options), command)


def chosen(settings: config.Settings, select: Sequence[str], every: bool) -> Sequence[str]:
    """Return what `--select` names, or with `--all` every asset."""
    if not every:
        return select
    if select:
        raise ConfigError("--all: expected without --select, which names what to build")
    from mog_assets.build.plan import graph

    return list(graph(settings))


@click.command()
@config_option
@selection
@click.option("--force", multiple=True, help="Rebuild this asset even if it is up to date: `mix`, `runs`.")
@click.option("--json", "as_json", is_flag=True, help="Print the steps as JSON.")
@guarded
def run(
    path: str | None,
    corpora: tuple[str, ...],
    select: tuple[str, ...],
    every: bool,
    evaluate: bool,
    force: tuple[str, ...],
    as_json: bool,
) -> None:
    """Materialise what is stale and print the leaderboard.

    Without --select or --all: what the results and the configured methods need. Few changed documents are not measured
    at once.
    """
    check_builds_here("run")
    settings = settings_of(path)
    keys = chosen(settings, select, every)
    stoppable(lambda: _run(settings, corpora, keys, force, evaluate, as_json), settings.home, "mog run")


def _run(
    settings: config.Settings,
    corpora: Sequence[str],
    select: Sequence[str],
    force: Sequence[str],
    evaluate: bool,
    as_json: bool,
) -> None:
    from mog_assets.resources.console import clear, displayed
    from mog_assets.resources.store import Store, label

    started = time.monotonic()
    with displayed(), on_stop(clear):
        steps, failures = _materialised(settings, corpora, select, force, evaluate)
    seconds = time.monotonic() - started
    if as_json:
        summary = {"seconds": seconds, "peak_memory_bytes": _peak_memory(), "steps": steps}
        echo(json.dumps({**summary, "failures": failures}, indent=1))
    else:
        if steps or not failures:
            _print_steps(steps, seconds)
        for message in left_out(settings, corpora):
            echo(message)
        print_question_sets(settings)
        _print_open(settings, corpora)
    for step in steps:
        if step["damage"]:
            what = label(str(step["asset"]), step["corpus"])
            echo(f"mog: {what} was damaged ({step['damage']}) and has been rebuilt", err=True)
    for failure in failures:
        echo(f"mog: {failure}", err=True)
    if failures:
        sys.exit(FAILED)
    if not as_json:
        print_leaderboard(settings)
        for key, page in _pages(settings, {str(step["asset"]) for step in steps}).items():
            echo(f"{key.capitalize()}: {Store(settings.home).read(key).path(page)}")
        # What was selected may lack what a search needs.
        if not settings.tests and Store(settings.home).find("method") is not None:
            echo(
                "Nothing is measured, because no question set has a test split. "
                'Search with `mog search "…"`, ask with `mog ask "…"`.'
            )


def _materialised(
    settings: config.Settings, corpora: Sequence[str], select: Sequence[str], force: Sequence[str], evaluate: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what was materialised, and what went wrong."""
    from mog_assets.build.plan import is_complete

    # Dagster, which takes longer to import than to see this, is needed only to build something.
    if not (corpora or select or force) and is_complete(settings, evaluate):
        return [], []
    from mog_assets.build.runner import run as materialise

    report = materialise(settings, corpora, select, force, evaluate)
    return report.steps, report.failures


def _pages(settings: config.Settings, built: Collection[str]) -> dict[str, str]:
    """Return the files that people open, by asset, of those that were built."""
    from mog_assets.build.plan import graph

    return {key: recipe.page for key, recipe in graph(settings).items() if key in built and recipe.page}


def _peak_memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _print_steps(steps: list[dict[str, Any]], seconds: float) -> None:
    from rich.table import Table

    from mog_assets.resources.console import EscapedConsole

    console = EscapedConsole(160)
    if not steps:
        console.print(f"Everything is up to date: nothing was recomputed ({seconds:.1f} s).")
        return
    totals: dict[str, dict[str, Any]] = {}
    for step in steps:
        total = totals.setdefault(step["asset"], {"corpora": 0, "seconds": 0.0, "why": {}, "recomputed": {}})
        total["corpora"] += step["corpus"] is not None
        total["seconds"] += step["seconds"]
        total["why"] |= {step["why"]: None} if step["why"] else {}
        for name, count in step["recomputed"].items():
            total["recomputed"][name] = total["recomputed"].get(name, 0) + count
    table = Table("asset", "corpora", "seconds", "why", "recomputed")
    for asset, total in totals.items():
        done = ", ".join(f"{count:,} {name}" for name, count in total["recomputed"].items())
        table.add_row(asset, str(total["corpora"] or ""), f"{total['seconds']:.2f}", "; ".join(total["why"]), done)
    console.print(table)
    console.print(f"{seconds:.1f} s, {_peak_memory() / 2**20:,.0f} MiB peak memory")


def _print_open(settings: config.Settings, corpora: Sequence[str]) -> None:
    """Print what stops nothing: questions without a use, requests without an answer, texts without a vector."""
    from mog_assets.build.plan import graph
    from mog_assets.resources.store import Store, label

    recipes = [recipe for recipe in graph(settings).values() if any(check.repeated for check in recipe.checks)]
    unpartitioned: list[tuple[str, str | None]] = [(recipe.key, None) for recipe in recipes if not recipe.partitioned]
    keys = [recipe.key for recipe in recipes if recipe.partitioned]
    for key, corpus in [*unpartitioned, *((key, corpus) for corpus in corpora or settings.corpora for key in keys)]:
        artefact = Store(settings.home).find(key, corpus)
        for fault in artefact.manifest.info["faults"].values() if artefact is not None else ():
            echo(fault if corpus is None else f"{label(key, corpus)}: {fault}")


@click.command()
@config_option
@guarded
def verify(path: str | None) -> None:
    """Check every artefact and vector collection against its manifest, and look for leftover data."""
    from mog_assets.cli.verification import verify as check

    settings = settings_of(path)
    checked, faults = check(settings)
    for fault in faults:
        echo(f"mog: {fault}", err=True)
    echo(f"{checked} artefacts checked, {len(faults)} faults")
    if faults:
        sys.exit(FAILED)


@click.command()
@config_option
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Show the code locations of this file, which others run with the daemon; start nothing but the web server.",
)
@click.option("--public-url", default="", metavar="URL", help="Where browsers reach it, behind a proxy.")
@guarded_server
def ui(path: str | None, port: int, host: str, public_url: str, workspace: Path | None) -> None:
    """Serve the Dagster UI of this project (stop it with Ctrl-C).

    With MOG_API_KEY set, a browser asks for it, as the password of any user. Without it, only this machine is served.
    """
    check_builds_here("ui")
    from mog_assets.cli import ui as parent
    from mog_assets.serve import access, server

    settings = settings_of(path)
    access.key_for(host)
    opened = server.listen(host, port)
    from mog_assets.build.runner import instance, prepare_home

    with instance(settings):
        pass
    echo(public_url or server.url_of(opened))
    sys.stdout.flush()
    opened.set_inheritable(True)
    arguments = [str(prepare_home(settings)), str(opened.fileno()), host, public_url]
    # The same process, without all that was loaded to get here: it waits for days.
    command = [sys.executable, "-I", parent.__file__, *arguments, *([] if workspace is None else [str(workspace)])]
    os.execv(sys.executable, command)


registry.COMMANDS.register("run", run)
registry.COMMANDS.register("verify", verify)
registry.COMMANDS.register("ui", ui)
