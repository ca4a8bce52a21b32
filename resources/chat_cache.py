"""Cache of paid language model answers in SQLite, keyed by the request."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from mog_assets.resources.chat import Completion
from mog_assets.resources.errors import MogError
from mog_assets.resources.progress import kept
from mog_assets.resources.sqlite import connect
from mog_assets.resources.writing import disk_full

_FILE = "llm.sqlite"


class ChatCache:
    """Answers by key, in a folder; without a folder nothing is stored.

    Raises:
        MogError: from any method: the file cannot be read or written.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def find(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Cached answers, by key."""
        if self.folder is None:
            return {}
        rows = {}
        with _opened(self.folder / _FILE) as connection:
            for key in keys:
                row = connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
                if row:
                    rows[key] = Completion(**json.loads(row[0]), cached=True)
        return rows

    def keep(self, key: str, completion: Completion) -> None:
        """Store an answer; it is on disk when this returns."""
        if self.folder is None:
            return
        answer = json.dumps({name: value for name, value in asdict(completion).items() if name != "cached"})
        with _opened(self.folder / _FILE, len(answer)) as connection:
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))
        kept["answers"] += 1


@contextmanager
def _opened(path: Path, wanted: int = 1) -> Iterator[sqlite3.Connection]:
    """Open the cache for a transaction that writes `wanted` bytes; a connection each: processes cannot share one."""
    try:
        with closing(connect(path)) as connection:
            # Not NORMAL: a power cut could lose the last answers, which were paid for.
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT) WITHOUT ROWID")
            with connection:
                yield connection
    except sqlite3.DatabaseError as error:
        code = error.sqlite_errorcode
        if code == sqlite3.SQLITE_FULL or code & 0xFF == sqlite3.SQLITE_IOERR:
            raise disk_full(path, wanted, f"answer cache: {error}") from error
        raise MogError(
            f"the answer cache {path} cannot be used ({error}): give this process the right to write it, or restore a "
            "copy; without it, every answer must be paid for again"
        ) from error
