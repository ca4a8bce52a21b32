"""Dagster's records of runs: opened with errors that people can read; runs that were killed are ended."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import yaml
from filelock import FileLock, Timeout

from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.printable import printable
from mog_assets.resources.progress import note

_STATUS = dg.DagsterRunStatus
FINISHED = [_STATUS.SUCCESS, _STATUS.FAILURE, _STATUS.CANCELED]
UNFINISHED = [status for status in _STATUS if status not in FINISHED]
_file_locks: list[FileLock] = []


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
        message = " ".join(str(getattr(cause, "orig", None) or cause).split())
        if isinstance(getattr(cause, "orig", None), sqlite3.Error):
            raise MogError(
                f"Dagster's records under {home} cannot be read or written ({message}): check free space and write "
                "permission, or move the folder away (it holds only the history of runs); then run again"
            ) from error
        raise MogError(
            f"Dagster's database, which {home / 'dagster.yaml'} names, cannot be read or written ({message}): start it "
            "or correct the settings, then run again; nothing that was built is lost"
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
def opened_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the Dagster instance of a folder, whose `dagster.yaml` has the settings.

    Raises:
        ConfigError: the file is not valid, names an environment variable that is not set, or a missing package.
    """
    source = home / "dagster.yaml"
    try:
        opened = dg.DagsterInstance.from_config(str(home))
    except (dg.DagsterInvalidConfigError, yaml.YAMLError) as error:
        message = " ".join(str(error).split())
        # Dagster lists the whole schema first.
        message = message[message.find("Error 1: ") + len("Error 1: ") :] if "Error 1: " in message else message
        raise ConfigError(
            f"{printable(source)}: expected settings of a Dagster instance, got: {message[:400]}"
        ) from error
    # Dagster raises errors of its own for a package that is missing.
    except Exception as error:
        missing = next((one for one in _causes(error) if isinstance(one, ModuleNotFoundError)), None)
        if missing is None:
            raise
        raise ConfigError(f"{printable(source)}: {missing_package(missing.name or '')}") from error
    with opened:
        yield opened


def missing_package(name: str) -> str:
    """Return what to do if a package that a `dagster.yaml` asks for is missing."""
    if name == "psycopg":
        # What SQLAlchemy 2.1 takes if the URL names no driver; dagster-postgres comes with psycopg2.
        return "expected the driver that is installed, got none: add `scheme: postgresql+psycopg2` to postgres_db"
    return f"expected installed packages, but {name} is missing: {extras.command(name)}"


def hold(instance: dg.DagsterInstance, run_id: str) -> None:
    """Hold the lock file of a run until this process, which executes it, has ended, however it ends."""
    path = _locks(instance) / run_id
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, thread_local=False)
    lock.acquire()
    # What nothing refers to is released.
    _file_locks.append(lock)


def end_killed(instance: dg.DagsterInstance) -> list[str]:
    """Report runs as failed whose process was killed, together with the code server that would report it.

    Otherwise they never end in Dagster's records, and their assets wait forever. What another machine executes has no
    lock file here.

    Returns:
        Ids of the runs that were reported.
    """
    ended = []
    for lock in _locks(instance).glob("*"):
        try:
            with FileLock(lock, timeout=0):
                run = instance.get_run_by_id(lock.name)
                if run is not None and run.status not in FINISHED:
                    instance.report_run_failed(run, "The process of this run was killed.")
                    ended.append(lock.name)
                lock.unlink(missing_ok=True)
        except Timeout:
            continue
    return ended


def _locks(instance: dg.DagsterInstance) -> Path:
    """Return the folder of the lock files of runs."""
    return Path(instance.root_directory) / "running"
