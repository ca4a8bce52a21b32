"""Vectors by text, in an SQLite file per encoder, for what no artefact holds."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

from mog_assets.resources.errors import MogError
from mog_assets.resources.files import disk_full
from mog_assets.resources.sqlite import connect

_log = logging.getLogger(__name__)
# SQLite errors for a file that is not a database, was overwritten, or is truncated.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR_SHORT_READ)
# Free bytes from which the file is written anew, without them.
_WORTHWHILE = 1 << 20
_AT_ONCE = 10_000

ResultT = TypeVar("ResultT")


def text_hash(text: str) -> bytes:
    """Return the key of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def text_hashes(texts: Iterable[str]) -> np.ndarray:
    """Return the keys of n texts, uint8 of shape (n, 32)."""
    return np.frombuffer(b"".join(map(text_hash, texts)), np.uint8).reshape(-1, 32)


def prefixes(hashes: np.ndarray) -> np.ndarray:
    """Return the first 8 bytes of each key, uint64: enough to say which of some millions may be the same."""
    return np.ascontiguousarray(hashes[:, :8]).view(np.uint64)[:, 0]


class VectorCache:
    """Vectors of texts by one encoder.

    Args:
        folder: Folder of the caches.
        fingerprint: Of the encoder.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.path = folder / f"vectors-{fingerprint}.sqlite"

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection; the file is made if there is none."""
        with closing(connect(self.path)) as connection:
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
            yield connection

    def using(self, use: Callable[[], ResultT], wanted: Callable[[], int] = lambda: 0) -> ResultT:
        """Return the result of using the cache; if it is damaged, it is discarded and used again.

        Args:
            use: Opens the cache, and can be called twice.
            wanted: Bytes that are written at most; asked for only if they do not fit.
        """
        try:
            return use()
        except sqlite3.DatabaseError as error:
            code = error.sqlite_errorcode
            if code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) and code not in _DAMAGED:
                raise disk_full(self.path, wanted(), f"vector cache: {error}") from error
            if code & 0xFF not in _DAMAGED and code not in _DAMAGED:
                raise MogError(
                    f"the vector cache {self.path} cannot be used ({error}): give this process the right to write it, "
                    "or delete it; it is a cache and will be rebuilt"
                ) from error
            for suffix in ("-wal", "-shm", ""):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            _log.warning(
                "the vector cache %s was damaged (%s) and has been discarded: encoding again", self.path, error
            )
        return use()

    def add(self, hashes: np.ndarray, vectors: np.ndarray) -> None:
        """Store vectors, but those of 0: a text that an endpoint had no vector for is asked for again."""

        def write() -> None:
            with self.open() as cache:
                for start in range(0, len(hashes), _AT_ONCE):
                    part = slice(start, start + _AT_ONCE)
                    rows = zip(map(bytes, hashes[part]), map(bytes, np.asarray(vectors[part])), strict=True)
                    with cache:
                        add(cache, (row for row in rows if any(row[1])))

        self.using(write, lambda: vectors.nbytes)

    def drop(self, hashes: np.ndarray, most: int) -> None:
        """Remove vectors that are stored elsewhere, and as many others as its bytes are more than `most`.

        Which others is left to chance: keys are hashes.
        """
        if not self.path.exists():
            return

        def write() -> None:
            with self.open() as cache:
                keys = _keys(cache)
                gone = np.isin(prefixes(keys), prefixes(hashes))
                row = cache.execute("SELECT length(key) + length(vector) FROM vectors LIMIT 1").fetchone()
                many = int((~gone).sum()) - most // row[0] if row else 0
                if many > 0:
                    gone[np.flatnonzero(~gone)[:many]] = True
                with cache:
                    cache.executemany("DELETE FROM vectors WHERE key = ?", ((bytes(key),) for key in keys[gone]))
                free, size = (cache.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size"))
                if free * size >= _WORTHWHILE:
                    try:
                        cache.execute("VACUUM")
                    except sqlite3.OperationalError as error:
                        # Another process uses it: the pages stay free for the next vectors.
                        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                            raise

        self.using(write)


def add(cache: sqlite3.Connection, rows: Iterable[tuple[bytes, bytes]]) -> None:
    """Store keys with their vectors, in the running transaction."""
    cache.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)


def lookup(cache: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield those of some keys that the cache has, with their vectors."""
    for start in range(0, len(keys), 500):
        part = keys[start : start + 500]
        marks = ",".join("?" * len(part))
        yield from cache.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)


def _keys(cache: sqlite3.Connection) -> np.ndarray:
    keys = b"".join(key for (key,) in cache.execute("SELECT key FROM vectors"))
    return np.frombuffer(keys, np.uint8).reshape(-1, 32)
