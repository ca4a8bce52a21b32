"""Runs that the command line starts, and what Dagster records of them."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES, NOT_FINISHED_STATUSES

from mog_assets.automation import build
from mog_assets.config import Settings
from mog_assets.plan import REGISTRY, graph, needed, phases, stale, waits
from mog_assets.recipe import FORCE, Recipe
from mog_assets.tools import Tools
from resources.errors import ConfigError, MogError
from resources.store import alive, atomic, label, sweep_orphans

_TAG = "mog/process"


def prepare_home(settings: Settings) -> Path:
    """The folder of the Dagster instance, made with the project's `dagster.yaml` where there is none."""
    home = Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster").resolve()
    home.mkdir(parents=True, exist_ok=True)
    own = Path(str(files("mog_assets"))).parent / "dagster.yaml"
    if not (home / "dagster.yaml").exists():
        with atomic(home / "dagster.yaml") as temporary:
            temporary.write_bytes(own.read_bytes() if own.exists() else b"")
    return home


@contextlib.contextmanager
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of the home folder (or of DAGSTER_HOME), its partitions those of the settings."""
    home = prepare_home(settings)
    with readable_errors(home), dg.DagsterInstance.from_config(str(home)) as opened:
        there = set(opened.get_dynamic_partitions("corpus"))
        opened.add_dynamic_partitions("corpus", sorted(set(settings.corpora) - there))
        yield opened


@dataclass
class RunReport:
    """What a run came to.

    Attributes:
        steps: Per materialised artefact: asset, corpus, seconds (0 where it was up to date), what was recomputed, and
            what was wrong with the one before (`damage`, None where nothing was).
        failures: What went wrong, a sentence each.
    """

    steps: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def selected(settings: Settings, recipes: dict[str, Recipe], select: Sequence[str]) -> set[str]:
    """Keys of the assets that a selection names: asset keys, groups, or Dagster's selection syntax.

    Raises:
        ConfigError: it names nothing.
    """
    if not select:
        return {key for key, recipe in recipes.items() if not recipe.on_demand}
    graph_of_assets = build(settings).resolve_asset_graph()
    keys: set[str] = set()
    for text in select:
        if text in recipes:
            keys.add(text)
            continue
        try:
            found = dg.AssetSelection.from_string(text).resolve(graph_of_assets)
        except Exception as error:  # Dagster raises several classes for text it cannot read or resolve.
            raise ConfigError(f"--select: expected an asset or a selection of assets, got {text!r}") from error
        names = {"/".join(key.path) for key in found} & set(recipes)
        if not names:
            known = ", ".join(recipes)
            raise ConfigError(f"--select: expected one of {known}, or a selection of assets, got {text!r}")
        keys |= names
    return keys


def run(
    settings: Settings, corpora: Sequence[str] = (), select: Sequence[str] = (), force: Collection[str] = ()
) -> RunReport:
    """Materialise what is stale, in this process: corpora one after the other, then what is made from all of them.

    What fails keeps nothing from being made but what is made from it.

    Args:
        settings: Of the project.
        corpora: Only these corpora; all where there are none.
        select: Only these assets, or selections of them.
        force: Assets that are made again although they are up to date.
    """
    unknown = [name for name in corpora if name not in settings.corpora]
    if unknown:
        raise ConfigError(f"--corpus: expected one of {', '.join(settings.corpora)}, got {unknown[0]!r}")
    recipes, tools, report = graph(settings), Tools(settings), RunReport()
    keys, named = selected(settings, recipes, select), list(corpora or settings.corpora)
    repeatable = [key for key, recipe in recipes.items() if recipe.repeatable]
    if unknown := [key for key in force if key not in repeatable]:
        raise ConfigError(f"--force: expected one of {', '.join(repeatable)}, got {unknown[0]!r}")
    plan = stale(tools, recipes, keys, named)
    for key in force:
        # The check above leaves assets of all corpora.
        if key not in plan.setdefault(None, []):
            plan[None].append(key)
    if not plan:
        return report
    definitions = build(settings)
    with instance(settings) as opened:
        end_killed(opened)
        sweep_orphans(settings.home / "cache")
        # What belongs to removed corpora goes first, and does not wait for corpora that fail.
        if REGISTRY in plan.get(None, ()):
            _execute(definitions, opened, tools, [REGISTRY], None, report)
            plan[None].remove(REGISTRY)
        undone: set[tuple[str, str | None]] = set()
        turns = phases(recipes)
        for phase in range(max(turns.values()) + 1):
            # What all corpora are made into may have come out as it was: a topic model that is kept touches no chunk.
            plan = stale(tools, recipes, keys, named) if phase > 1 and not force else plan
            for corpus, stale_keys in plan.items():
                planned = [key for key in stale_keys if turns[key] == phase]
                due = [key for key in planned if not waits(recipes[key], corpus, recipes, undone)]
                waiting = [c for c in settings.corpora if tools.store.find("documents", c) is None]
                if due and corpus is None and waiting and not select:
                    if not report.failures:
                        names = ", ".join(waiting)
                        report.failures.append(f"what is made from all corpora waits for {names}: run `mog run`")
                    due = []
                tags = {FORCE: "true"} if set(force) & set(due) else {}
                done = _execute(definitions, opened, tools, due, corpus, report, tags) if due else set()
                undone |= {(key, corpus) for key in planned if key not in done}
    return report


def experiment(settings: Settings, keys: Sequence[str]) -> RunReport:
    """Materialise assets that are made on demand, and what is stale of all that they are made from.

    Args:
        settings: Of the project.
        keys: Of the assets.
    """
    return run(settings, select=needed(graph(settings), keys))


def _execute(
    definitions: dg.Definitions,
    opened: dg.DagsterInstance,
    tools: Tools,
    keys: list[str],
    corpus: str | None,
    report: RunReport,
    tags: dict[str, str] | None = None,
) -> set[str]:
    """Materialise some assets in one Dagster run; returns those that were."""
    job = definitions.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=opened,
        asset_selection=[dg.AssetKey(key.split("/")) for key in keys],
        partition_key=corpus,
        raise_on_error=False,
        tags={**process_tags(), **(tags or {})},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            failure = event.step_failure_data.user_failure_data
            cause = failure.description if failure else None
            if cause is None and error is not None:
                inner = error
                while inner.cause is not None:
                    inner = inner.cause
                cause = " ".join(inner.message.split())
            report.failures.append(cause or f"step {event.step_key} failed")
    if not result.success and not report.failures:
        report.failures.append(f"the run of {label('the graph', corpus)} failed: see the Dagster UI (`mog ui`)")
    for event in result.get_asset_materialization_events():
        key = "/".join(event.asset_key.path) if event.asset_key else ""
        metadata = event.step_materialization_data.materialization.metadata
        report.steps.append(
            {
                "asset": key,
                "corpus": corpus,
                "seconds": metadata["seconds to build"].value if metadata["built now"].value else 0.0,
                "recomputed": metadata["recomputed"].value,
                "damage": metadata["damage"].value if "damage" in metadata else None,
            }
        )
    return {"/".join(event.asset_key.path) for event in result.get_asset_materialization_events() if event.asset_key}


@contextmanager
def readable_errors(home: Path) -> Iterator[None]:
    """Turn errors of the databases under an instance's folder into one for people."""
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        raise MogError(
            f"Dagster's records under {home} cannot be read or written ({error.orig}): make room there and see that "
            "this process may write it, or move it away, since it holds only the history of runs; then run again"
        ) from error


def process_tags() -> dict[str, str]:
    """Tags of a run that happens in this process."""
    return {_TAG: _process(os.getpid())}


def end_killed(instance: dg.DagsterInstance) -> list[str]:
    """Report runs of this machine as failed whose process is gone, and give back what they hold of pools.

    Nobody else says that they ended, and the next run would wait for their place in a pool for ever.

    Returns:
        Ids of the runs that were reported.
    """
    ended = []
    for run in instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES)):
        tag = run.tags.get(_TAG, "")
        host, _, pid = tag.partition(" ")
        if host == socket.gethostname() and _process(int(pid.split()[0])) != tag:
            instance.report_run_failed(run, f"The process of this run ({tag}) was killed.")
            ended.append(run.run_id)
    events = instance.event_log_storage
    if waiting := list(events.get_concurrency_run_ids()):
        for run in instance.get_runs(dg.RunsFilter(run_ids=waiting, statuses=FINISHED_STATUSES)):
            events.free_concurrency_slots_for_run(run.run_id)
    return ended


def _process(pid: int) -> str:
    """Host, id and start of a process: another process that gets the id later has another start."""
    try:
        start = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        # Gone, or a system without /proc.
        start = "running" if alive(pid) else "gone"
    return f"{socket.gethostname()} {pid} {start}"
