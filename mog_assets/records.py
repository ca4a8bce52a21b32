"""What Dagster records of runs: how they wait for each other, and what a stopped or killed one leaves."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES, NOT_FINISHED_STATUSES
from dagster._utils.concurrency import ConcurrencyClaimStatus

from resources.errors import MogError
from resources.store import alive

_TAG = "mog/process"
# How often a waiting step asks for its place, and looks whether the process that has it is alive.
_ASK_SECONDS, _LOOK_SECONDS = 1.0, 10.0


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


def cancel(instance: dg.DagsterInstance, run_id: str) -> None:
    """Report a run of this process as canceled, and give back what it holds of pools or waits for."""
    run = instance.get_run_by_id(run_id)
    if run is not None and not run.is_finished:
        instance.report_run_canceled(run, "`mog` was stopped by a signal.")
    instance.event_log_storage.free_concurrency_slots_for_run(run_id)


def sleep_in_claims(instance: dg.DagsterInstance, say: Callable[[str], object]) -> None:
    """Have the runs of an instance sleep while they wait for a place in a pool, and end dead runs that hold one.

    Dagster 1.13 means to sleep between two questions, but computes a sleep of min(0, …) seconds: it asks without a
    pause, and for ever where the holder was killed.

    Args:
        instance: Whose runs; changed.
        say: Is told once who is being waited for.
    """
    storage = instance.event_log_storage
    ask, told, looked = storage.claim_concurrency_slot, set[str](), time.monotonic()

    def claim(concurrency_key: str, run_id: str, step_key: str, priority: int | None = None) -> ConcurrencyClaimStatus:
        nonlocal looked
        status = ask(concurrency_key, run_id, step_key, priority)
        if status.is_claimed:
            return status
        for holder in storage.get_concurrency_info(concurrency_key).active_run_ids - {run_id}:
            if holder not in told:
                told.add(holder)
                say(f"mog: waiting for {_named(instance, holder)}, which uses the pool {concurrency_key}")
        time.sleep(_ASK_SECONDS)
        if time.monotonic() - looked >= _LOOK_SECONDS:
            end_killed(instance)
            looked = time.monotonic()
        return status.with_sleep_interval(0.0)

    storage.claim_concurrency_slot = claim  # type: ignore[method-assign]  # Of this instance alone.


def remove_old_runs(instance: dg.DagsterInstance, days: int, dry_run: bool = False) -> int:
    """Remove finished runs that began `days` ago or earlier; returns how many.

    A run stays that materialised an asset or a partition last: without its events automation would take that for
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
            asked = dg.AssetRecordsFilter(asset_key=key, storage_ids=ids)
            needed |= {r.run_id for r in instance.fetch_materializations(asked, limit=len(ids)).records}
    chosen = dg.RunsFilter(statuses=FINISHED_STATUSES, created_before=before)
    old = [run.run_id for run in instance.get_runs(chosen) if run.run_id not in needed]
    for run_id in [] if dry_run else old:
        instance.delete_run(run_id)
    return len(old)


def _named(instance: dg.DagsterInstance, run_id: str) -> str:
    """How messages name a run: by its process where that is known."""
    run = instance.get_run_by_id(run_id)
    if run is None or _TAG not in run.tags:
        return f"run {run_id[:8]}"
    host, pid, _ = run.tags[_TAG].split(" ")
    return f"process {pid} on {host} (run {run_id[:8]})"


def _process(pid: int) -> str:
    """Host, id and start of a process: another process that gets the id later has another start."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        # Killed, and its parent has not taken notice (in a container perhaps never).
        start = "gone" if state[0] in "ZX" else state[19]
    except OSError:
        # Gone, or a system without /proc.
        start = "running" if alive(pid) else "gone"
    return f"{socket.gethostname()} {pid} {start}"
