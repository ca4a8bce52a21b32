"""SQLite files that several processes open at once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import tenacity

BUSY_SECONDS = 60


def _busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


@tenacity.retry(
    retry=tenacity.retry_if_exception(_busy),
    wait=tenacity.wait_random(0, 0.05),
    stop=tenacity.stop_after_delay(BUSY_SECONDS),
    reraise=True,
)
def _write_ahead(connection: sqlite3.Connection) -> None:
    # SQLite ignores its timeout when two connections switch a new file to this mode at once.
    connection.execute("PRAGMA journal_mode=WAL")


def connect(path: Path) -> sqlite3.Connection:
    """A connection that reads while another writes, and waits for its turn to write.

    Raises:
        sqlite3.DatabaseError: the file is not a database, cannot be written, or was in use for `BUSY_SECONDS`.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS)
    try:
        _write_ahead(connection)
    except BaseException:
        connection.close()
        raise
    return connection
