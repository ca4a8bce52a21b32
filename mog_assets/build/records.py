"""Dagster's records of runs: waiting for pools, stopped and killed runs, and the removal of old ones."""

from __future__ import annotations

import json
import logging
import os
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stderr
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO, cast

import dagster as dg
import yaml
from dagster._check import CheckError
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.dagster_run import FINISHED_STATUSES, NOT_FINISHED_STATUSES, RunRecord
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._utils.concurrency import ConcurrencyClaimStatus
from filelock import FileLock, Timeout

from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.printable import printable
from mog_assets.resources.progress import note

_TAG = "mog/process"
# Seconds between attempts of a waiting step to claim its pool slot and to check that the holder is alive.
_ASK_SECONDS, _LOOK_SECONDS = 1.0, 10.0
# Seconds for a launched run to have a process, and for a code server on this machine to accept a connection.
_START_SECONDS, _ANSWER_SECONDS = 30.0, 1.0
_held: list[AbstractContextManager[object]] = []


class _Quiet:
    """Standard error without the lines that Dagster writes of each record that cannot be kept: one error says it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return len(text) if text.startswith("Exception while writing logger call") else self._stream.write(text)


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
        with redirect_stderr(cast(TextIO, _Quiet(sys.stderr))):
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


@contextmanager
def holding(instance: dg.DagsterInstance, run_id: str) -> Iterator[dict[str, str]]:
    """Hold the lock file of a run that this process executes; gives tags for the run.

    The system releases it when the process ends, however it ends. Where other machines use the same database, the file
    tells which of them may judge.
    """
    _locks(instance).mkdir(parents=True, exist_ok=True)
    with FileLock(_lock(instance, run_id), thread_local=False):
        yield {_TAG: f"{socket.gethostname()} {os.getpid()}"}


def hold(instance: dg.DagsterInstance, run_id: str) -> None:
    """Hold the lock file of a run until this process, which was started for the run, has ended."""
    held = holding(instance, run_id)
    instance.add_run_tags(run_id, held.__enter__())
    # What nothing refers to is closed.
    _held.append(held)


def end_killed(instance: dg.DagsterInstance) -> list[str]:
    """Report runs whose process is gone as failed, whoever launched them, and release their pool slots.

    Otherwise they never end in Dagster's records: their assets, and the next run of their pool, wait forever. Queued
    runs are left to the daemon.

    Returns:
        Ids of the runs that were reported.
    """
    locks, ended = [*_locks(instance).glob("*")], []
    statuses = [status for status in NOT_FINISHED_STATUSES if status != dg.DagsterRunStatus.QUEUED]
    records = instance.get_run_records(dg.RunsFilter(statuses=statuses))
    for gone in (record.dagster_run.run_id for record in records if _is_gone(instance, record)):
        # It may have ended by itself since.
        if (run := instance.get_run_by_id(gone)) is not None and not run.is_finished:
            process = run.tags.get(_TAG, "none was started")
            instance.report_run_failed(run, f"The process of this run ({process}) was killed.")
            ended.append(gone)
    for lock in {lock.name for lock in locks} - {record.dagster_run.run_id for record in records}:
        _lock(instance, lock).unlink(missing_ok=True)
    events = instance.event_log_storage
    if waiting := list(events.get_concurrency_run_ids()):
        for run in instance.get_runs(dg.RunsFilter(run_ids=waiting, statuses=FINISHED_STATUSES)):
            events.free_concurrency_slots_for_run(run.run_id)
    return ended


def _is_gone(instance: dg.DagsterInstance, record: RunRecord) -> bool:
    """Whether no process executes a run that is not finished, or will."""
    run, lock = record.dagster_run, _lock(instance, record.dagster_run.run_id)
    if _TAG in run.tags:
        # It was held before the run had the tag. Without the file, another machine judges.
        return lock.exists() and not _is_held(lock)
    # Of a database server, the run may be another machine's: Dagster gives it some minutes to start.
    idle = (datetime.now(UTC) - record.update_timestamp.replace(tzinfo=UTC)).total_seconds()
    if idle < _START_SECONDS or not isinstance(instance.run_storage, SqliteRunStorage):
        return False
    launched = run.tags.get(GRPC_INFO_TAG)
    # Somebody's own process executes what no code server started.
    return not _answers(json.loads(launched)) if launched else run.status != dg.DagsterRunStatus.STARTED


def _is_held(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def _answers(server: Mapping[str, Any]) -> bool:
    """Whether somebody listens where a code server did."""
    if not server.get("socket"):
        family, address = socket.AF_INET, (server["host"], server["port"])
    else:
        family, address = socket.AF_UNIX, server["socket"]
    with socket.socket(family) as opened:
        opened.settimeout(_ANSWER_SECONDS)
        try:
            opened.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            # It has much to do.
            return True
    return True


def _locks(instance: dg.DagsterInstance) -> Path:
    """The folder of the lock files of runs."""
    return Path(instance.root_directory) / "running"


def _lock(instance: dg.DagsterInstance, run_id: str) -> Path:
    return _locks(instance) / run_id


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
    host, pid = run.tags[_TAG].split()[:2]
    return f"process {pid} on {host} (run {run_id[:8]})"
