"""The file of the log of use: its tables, and how it is opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mog_assets.resources.errors import MogError
from mog_assets.resources.sqlite import connect, ensure_tables

_FORMAT = 1
# `dirty`: bytes of deleted rows may still be in the file or beside it.
_SCHEMA = (
    "CREATE TABLE about (file TEXT NOT NULL, rows INTEGER NOT NULL, used INTEGER NOT NULL, dirty INTEGER NOT NULL)",
    "INSERT INTO about VALUES (lower(hex(randomblob(8))), 0, 0, 0)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, time REAL NOT NULL, "
    "question TEXT NOT NULL, used INTEGER NOT NULL, method TEXT NOT NULL, version TEXT NOT NULL)",
    "CREATE INDEX entries_by_time ON entries (time)",
    "CREATE TABLE spans (entry INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE, corpus TEXT NOT NULL, "
    'doc TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, text TEXT NOT NULL, prefix TEXT NOT NULL, '
    "suffix TEXT NOT NULL)",
    "CREATE INDEX spans_by_entry ON spans (entry)",
    "CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN "
    "UPDATE about SET rows = rows + 1, used = used + new.used; END",
    "CREATE TRIGGER entry_deleted AFTER DELETE ON entries BEGIN "
    "UPDATE about SET rows = rows + 1, used = used + old.used, dirty = 1; END",
    f"PRAGMA user_version = {_FORMAT}",
)


def connected(path: Path, seconds: float, synchronous: str = "NORMAL", threads: bool = False) -> sqlite3.Connection:
    """Return a connection to the log, which is created if there is none.

    Args:
        path: Of the log.
        seconds: How long to wait for other processes.
        synchronous: `FULL` if what is written must survive a power cut.
        threads: See `mog_assets.resources.sqlite.connect`.

    Raises:
        MogError: another version of the package wrote the file.
        sqlite3.Error, OSError: it cannot be used; to be called within `explained`.
    """
    connection = connect(path, seconds, threads)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        # What `VACUUM` copies never lies in another folder.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        if (version := ensure_tables(connection, _SCHEMA)) != _FORMAT:
            raise MogError(
                f"the log of use {path}: expected format {_FORMAT}, got {version}: another version of mog-assets wrote "
                "it; use that version, or move the file away"
            )
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say what is wrong with the log.

    Raises:
        MogError: it cannot be read or written.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise MogError(
            f"the log of use {path} cannot be used ({error}): free disk space, give this process the right to write "
            "the file and its folder, or delete it, which loses what was noted"
        ) from error
