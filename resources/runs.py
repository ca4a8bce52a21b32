"""What Dagster records of runs: how it fails, and what a run whose process was killed leaves in it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES, NOT_FINISHED_STATUSES

from mog_assets.errors import MogError
from resources.store import alive

_TAG = "mog/process"


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
