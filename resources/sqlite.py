"""SQLite files that several processes open at once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import tenacity

BUSY_SECONDS = 60


def _busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def connect(path: Path, seconds: float = BUSY_SECONDS, threads: bool = False) -> sqlite3.Connection:
    """A connection that reads while another writes, and waits for its turn to write.

    Args:
        path: The file; it is created if there is none.
        seconds: How long to wait for others.
        threads: Whether several threads use the connection; the caller sees to it that one does at a time.

    Raises:
        sqlite3.DatabaseError: the file is not a database, cannot be written, or was in use for `seconds`.
    """
    connection = sqlite3.connect(path, timeout=seconds, check_same_thread=not threads)
    # SQLite ignores its timeout when two connections switch a new file to this mode at once.
    again = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_busy),
        wait=tenacity.wait_random(0, 0.05),
        stop=tenacity.stop_after_delay(seconds),
        reraise=True,
    )
    try:
        again(connection.execute, "PRAGMA journal_mode=WAL")
    except BaseException:
        connection.close()
        raise
    return connection
