"""SQLite files that several processes open at once."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import tenacity

BUSY_SECONDS = 60
# Closing any descriptor of a file drops the locks that this process holds on it: none is open while it is created.
_CREATING = threading.Lock()


def _busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def exists(path: Path) -> bool:
    """Return whether there is such a file."""
    with _CREATING:
        return path.exists()


def _create(path: Path) -> None:
    """Create an empty file that its owner alone can read; SQLite gives the files beside it the same mode."""
    with _CREATING:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Another process may be first.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def ensure_tables(connection: sqlite3.Connection, schema: Sequence[str]) -> int:
    """Make the tables of a file that has none; returns its `user_version`.

    Args:
        connection: To the file.
        schema: The statements; the last sets `user_version`, which is 0 before.
    """
    if _version(connection) == 0:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            # Another process may have been first.
            if _version(connection) == 0:
                for statement in schema:
                    connection.execute(statement)
    return _version(connection)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def connect(path: Path, seconds: float = BUSY_SECONDS, threads: bool = False) -> sqlite3.Connection:
    """Return a connection that reads while another writes, and waits for its turn to write.

    Args:
        path: The file; it is created if there is none, with its folder, for its owner alone.
        seconds: How long to wait for others.
        threads: Whether several threads use the connection; the caller sees to it that one does at a time.

    Raises:
        sqlite3.DatabaseError: the file is not a database, cannot be written, or was in use for `seconds`.
        OSError: it cannot be created.
    """
    _create(path)
    connection = sqlite3.connect(path, timeout=seconds, check_same_thread=not threads)
    # SQLite ignores its timeout when two connections switch a new file to this mode at once.
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_busy),
        wait=tenacity.wait_random(0, 0.05),
        stop=tenacity.stop_after_delay(seconds),
        reraise=True,
    )
    try:
        retrying(connection.execute, "PRAGMA journal_mode=WAL")
    except BaseException:
        connection.close()
        raise
    return connection
