"""`mog ui`: how soon what changed is searchable, and what follows when its whole process tree is killed.

    $ python benchmarks/ui.py edits FOLDER
    $ python benchmarks/ui.py crashes FOLDER [--moments 10] [--seed 0]

FOLDER must not exist. `edits`: seconds until a new file, an edit and a deletion are seen by an open project, and until
all is built, with the runs of Dagster that it took. `crashes`, a row for each moment: after how many seconds of a build
the tree was killed with SIGKILL, the runs it left unfinished, seconds from the next start until all is built, and the
runs that are unfinished then.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

import mog_assets
from mog_assets import config
from mog_assets.build import markdown
from mog_assets.build.plan import is_complete

LIMIT = 1800.0
SETTINGS = {
    "home": "home",
    "corpora": {"notes": {"path": "notes"}},
    "levels": 2,
    "methods": ["fused"],
    "automation": {"interval_seconds": 5},
}


def tree(pid: int) -> list[int]:
    """List a process and all that it started."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += map(int, task.read_text().split())
    return [pid, *(found for child in children for found in tree(child))]


@contextmanager
def ui(folder: Path) -> Iterator[None]:
    """`mog ui` of a project; in the end the whole tree is killed with SIGKILL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mog_assets.cli", "ui", "--config", str(folder / "mog.yaml"), "--port", str(port)]
    with (folder / "ui.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            for pid in tree(process.pid):
                # It may have ended since.
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def unfinished(folder: Path) -> list[str]:
    """List the status of each run that has not ended, in Dagster's records."""
    with dg.DagsterInstance.from_config(str(folder / "home/dagster")) as instance:
        return [run.status.value for run in instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))]


def until_built(folder: Path) -> float:
    """Seconds until everything is built and no run goes on; at most `LIMIT`."""
    started = time.monotonic()
    while time.monotonic() - started < LIMIT:
        if is_complete(config.load(folder / "mog.yaml")) and not unfinished(folder):
            break
        time.sleep(1)
    return time.monotonic() - started


def add(folder: Path, number: int) -> None:
    """Add a document, and change another one."""
    for name in {number, number // 2}:
        text = f"# Note {name}\n\nThe otter {name} swims at dusk. It eats {number} crayfish.\n"
        (folder / f"notes/{name}.md").write_text(text, encoding="utf-8")


def begin(folder: Path) -> None:
    """Write a project with one document."""
    (folder / "notes").mkdir(parents=True)
    (folder / "mog.yaml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    add(folder, 0)


def runs(folder: Path) -> int:
    """Count the runs in Dagster's records."""
    with dg.DagsterInstance.from_config(str(folder / "home/dagster")) as instance:
        return instance.get_runs_count()


@click.group(help=__doc__)
def main() -> None:
    """See the commands."""


@main.command()
@click.argument("folder", type=click.Path(exists=False, path_type=Path))
def edits(folder: Path) -> None:
    """Time a new file, an edit and a deletion."""
    begin(folder)
    file = folder / "notes/new.md"
    with ui(folder):
        seconds = until_built(folder)
        rows = [{"change": "first build", "searchable, s": "", "built, s": f"{seconds:.0f}", "runs": str(runs(folder))}]
        with mog_assets.open(folder / "mog.yaml", refresh=0.2) as project:
            for change, text in (("new file", "The newt sheds."), ("edit", "The newt hunts."), ("deletion", "")):
                before, started = runs(folder), time.monotonic()
                file.write_text(f"# New\n\n{text}\n", encoding="utf-8") if text else file.unlink()
                while text not in shown(project) if text else shown(project):
                    time.sleep(0.1)
                searchable = time.monotonic() - started
                until_built(folder)
                built, took = time.monotonic() - started, runs(folder) - before
                rows.append(
                    {
                        "change": change,
                        "searchable, s": f"{searchable:.0f}",
                        "built, s": f"{built:.0f}",
                        "runs": str(took),
                    }
                )
    click.echo(markdown.table(rows))


def shown(project: mog_assets.Project) -> str:
    """Return the text of the best passage about a newt, if it is of the new file."""
    best = project.search("newt", k=1).passages[:1]
    return best[0].text if best and best[0].document == "new.md" else ""


@main.command()
@click.argument("folder", type=click.Path(exists=False, path_type=Path))
@click.option("--moments", default=10)
@click.option("--seed", default=0)
def crashes(folder: Path, moments: int, seed: int) -> None:
    """Kill the tree at random moments of a build."""
    draw = random.Random(seed)
    begin(folder)
    with ui(folder):
        print(f"first build: {until_built(folder):.0f} s", flush=True)
        add(folder, 1)
        usual = until_built(folder)
    print(f"a document added and nothing killed: {usual:.0f} s", flush=True)
    print("moment s | unfinished runs left | built s after the next start | unfinished runs then", flush=True)
    left: tuple[float, list[str]] | None = None
    for number in range(2, moments + 3):
        with ui(folder):
            seconds = until_built(folder)
            if left is not None:
                print(
                    f"{left[0]:.0f} | {', '.join(left[1])} | {seconds:.0f} | {', '.join(unfinished(folder))}",
                    flush=True,
                )
            add(folder, number)
            moment = draw.uniform(0, usual)
            time.sleep(moment)
        left = moment, unfinished(folder)


if __name__ == "__main__":
    main()
