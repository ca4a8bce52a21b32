"""Dagster's records of runs: waiting for pools, stopped and killed runs, and the removal of old ones."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._check import CheckError
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.dagster_run import FINISHED_STATUSES, NOT_FINISHED_STATUSES
from dagster._utils.concurrency import ConcurrencyClaimStatus

from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.holding import alive
from mog_assets.resources.printable import printable
from mog_assets.resources.progress import note

_TAG = "mog/process"
# Seconds between attempts of a waiting step to claim its pool slot and to check that the holder is alive.
_ASK_SECONDS, _LOOK_SECONDS = 1.0, 10.0


@contextmanager
def readable_errors(home: Path) -> Iterator[None]:
    """Turn errors of the databases of an instance into a `MogError`: SQLite in its folder, or a server.

    Raises:
        MogError: the records cannot be read or written.
    """
    from sqlalchemy.exc import SQLAlchemyError

    root, retries = logging.getLogger(), _Retries()
    root.addFilter(retries)
    try:
        yield
    except Exception as error:
        # dagster-postgres raises an error of its own when it has tried often enough.
        cause = next((one for one in _causes(error) if isinstance(one, SQLAlchemyError)), None)
        if cause is None:
            raise
        said = " ".join(str(getattr(cause, "orig", None) or cause).split())
        if isinstance(getattr(cause, "orig", None), sqlite3.Error):
            raise MogError(
                f"Dagster's records under {home} cannot be read or written ({said}): check free space and write "
                "permission, or move the folder away (it holds only the history of runs); then run again"
            ) from error
        raise MogError(
            f"Dagster's database, which {home / 'dagster.yaml'} names, cannot be read or written ({said}): start it or "
            "correct the settings, then run again; nothing that was built is lost"
        ) from error
    finally:
        root.removeFilter(retries)


class _Retries(logging.Filter):
    """Says in one line what dagster-postgres logs, in several, at each attempt to reach its database."""

    reported = False

    def filter(self, record: logging.LogRecord) -> bool:
        if not str(record.msg).startswith("Retrying failed database connection"):
            return True
        if not self.reported:
            self.reported = True
            note("mog: Dagster's database does not answer: trying again for a few seconds")
        return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def opened_instance(home: Path, overrides: dict[str, Any]) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of a folder.

    Args:
        home: The folder; its `dagster.yaml` has the settings.
        overrides: Settings that go before those of the file.

    Raises:
        ConfigError: the file is not valid, names an environment variable that is not set, or a missing package.
    """
    source = home / "dagster.yaml"
    try:
        reference = InstanceRef.from_dir(str(home), overrides=overrides)
        made = dg.DagsterInstance.from_ref(reference)
    except (dg.DagsterInvalidConfigError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        # Dagster lists the whole schema first.
        said = said[said.find("Error 1: ") + len("Error 1: ") :] if "Error 1: " in said else said
        raise ConfigError(f"{printable(source)}: expected settings of a Dagster instance, got: {said[:400]}") from error
    except (ImportError, CheckError) as error:
        missing = next((one for one in _causes(error) if isinstance(one, ModuleNotFoundError)), None)
        if missing is None:
            raise
        raise ConfigError(f"{printable(source)}: {missing_package(missing.name or '')}") from error
    with made:
        yield made


def missing_package(name: str) -> str:
    """What to do if a package that a `dagster.yaml` asks for is missing."""
    if name == "psycopg":
        # What SQLAlchemy 2.1 takes if the URL names no driver; dagster-postgres comes with psycopg2.
        return "expected the driver that is installed, got none: add `scheme: postgresql+psycopg2` to postgres_db"
    return f"expected installed packages, but {name} is missing: {extras.command(name)}"


def process_tags() -> dict[str, str]:
    """Tags of a run of this process."""
    return {_TAG: _process(os.getpid())}


def end_killed(instance: dg.DagsterInstance) -> list[str]:
    """Report runs of this machine whose process is gone as failed, and release their pool slots.

    Otherwise they never end in Dagster's records, and the next run waits for their pool slot forever.

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


def cancel(instance: dg.DagsterInstance, run_id: str) -> None:
    """Report a run of this process as canceled, and release the pool slots that it holds or waits for."""
    run = instance.get_run_by_id(run_id)
    if run is not None and not run.is_finished:
        instance.report_run_canceled(run, "`mog` was stopped by a signal.")
    instance.event_log_storage.free_concurrency_slots_for_run(run_id)


def sleep_in_claims(instance: dg.DagsterInstance, say: Callable[[str], object]) -> None:
    """Make the runs of an instance sleep while they wait for a pool slot, and end dead runs that hold one.

    Dagster 1.13 computes the sleep between two attempts as min(0, …) seconds: it polls without a pause, and forever if
    the holder was killed.

    Args:
        instance: The instance; modified.
        say: Called once with a message that names the holder.
    """
    storage = instance.event_log_storage
    ask, holders_seen, looked = storage.claim_concurrency_slot, set[str](), time.monotonic()

    def claim(concurrency_key: str, run_id: str, step_key: str, priority: int | None = None) -> ConcurrencyClaimStatus:
        nonlocal looked
        status = ask(concurrency_key, run_id, step_key, priority)
        if status.is_claimed:
            return status
        for holder in storage.get_concurrency_info(concurrency_key).active_run_ids - {run_id}:
            if holder not in holders_seen:
                holders_seen.add(holder)
                say(f"mog: waiting for {_named(instance, holder)}, which uses the pool {concurrency_key}")
        time.sleep(_ASK_SECONDS)
        if time.monotonic() - looked >= _LOOK_SECONDS:
            end_killed(instance)
            looked = time.monotonic()
        return status.with_sleep_interval(0.0)

    storage.claim_concurrency_slot = claim  # type: ignore[method-assign]  # On this instance only.


def remove_old_runs(instance: dg.DagsterInstance, days: int, dry_run: bool = False) -> int:
    """Remove finished runs that started `days` ago or earlier; returns their number.

    The run that last materialised an asset or partition is kept: without its events, automation would see the asset as
    missing and start a run.
    """
    before = datetime.now(UTC) - timedelta(days=days)
    needed = set()
    for key in instance.all_asset_keys():
        latest = instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        if event := instance.get_latest_materialization_event(key):
            needed.add(event.run_id)
        ids = list(latest.values())
        if ids:
            records_wanted = dg.AssetRecordsFilter(asset_key=key, storage_ids=ids)
            needed |= {r.run_id for r in instance.fetch_materializations(records_wanted, limit=len(ids)).records}
    chosen = dg.RunsFilter(statuses=FINISHED_STATUSES, created_before=before)
    old = [run.run_id for run in instance.get_runs(chosen) if run.run_id not in needed]
    for run_id in [] if dry_run else old:
        instance.delete_run(run_id)
    return len(old)


def _named(instance: dg.DagsterInstance, run_id: str) -> str:
    """A run's name in messages: its process, if known."""
    run = instance.get_run_by_id(run_id)
    if run is None or _TAG not in run.tags:
        return f"run {run_id[:8]}"
    host, pid, _ = run.tags[_TAG].split(" ")
    return f"process {pid} on {host} (run {run_id[:8]})"


def _process(pid: int) -> str:
    """Host, id and start time of a process; a later process with the same id has another start time."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        # Killed, but not yet reaped by its parent (in a container perhaps never).
        start = "gone" if state[0] in "ZX" else state[19]
    except OSError:
        # The process is gone, or the system has no /proc.
        start = "running" if alive(pid) else "gone"
    return f"{socket.gethostname()} {pid} {start}"
