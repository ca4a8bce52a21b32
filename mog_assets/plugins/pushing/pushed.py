"""Documents that programs push, kept in one SQLite file: what was taken is on disk, and in the corpus after a run.

The file is a source like others (see `mog_assets.documents.sources`), whose items are parts of the documents.
"""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from mog_assets.config import Settings
from mog_assets.documents.documents import document_of
from mog_assets.documents.folders import too_long
from mog_assets.documents.sources import SOURCES, Item, Source, name_of, number_of, part_of
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.printable import printable
from mog_assets.resources.sqlite import connect, ensure_tables, exists

_FORMAT = 1
# Seconds to wait for other processes.
_PATIENCE = 10.0
# `version` counts the changes of the file; that of a part is the last one in it.
_SCHEMA = (
    "CREATE TABLE about (file TEXT NOT NULL, version INTEGER NOT NULL)",
    "INSERT INTO about VALUES (lower(hex(randomblob(8))), 0)",
    "CREATE TABLE documents (id TEXT PRIMARY KEY, part INTEGER NOT NULL, line TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX documents_by_part ON documents (part, id)",
    "CREATE TABLE parts (part INTEGER PRIMARY KEY, version INTEGER NOT NULL, documents INTEGER NOT NULL)",
    f"PRAGMA user_version = {_FORMAT}",
)


def files_of(settings: Settings) -> dict[str, Path]:
    """Return the files of the corpora that take documents, by name of the corpus."""
    addresses = {name: (corpus.source or "").partition("://") for name, corpus in settings.corpora.items()}
    return {name: Path(file) for name, (scheme, _, file) in addresses.items() if scheme == "pushed"}


def push(
    path: Path,
    put: Sequence[Any],
    delete: Sequence[Any] = (),
    limit: int = 20_000_000,
    places: Sequence[str] | None = None,
) -> int:
    """Put documents, and delete some: all or, if one is refused or this process is killed, none.

    It is on disk when this returns. A document replaces the one of its id; to push the same again changes nothing.

    Args:
        path: The file; created if there is none.
        put: Documents with `id`, `text`, and if wanted `title` and `metadata`.
        delete: Ids; those that are not there are passed over.
        limit: Bytes that a document may have.
        places: What the documents are called in messages; None for `documents.0`, `documents.1` …

    Returns:
        How many documents are other than before.

    Raises:
        ConfigError: a document cannot be used; the message says which, and why.
        MogError: the file cannot be written.
    """
    lines: dict[str, str | None] = {}
    for number, record in enumerate(put):
        checked = _line(places[number] if places else f"documents.{number}", record, limit)
        lines[_key(record["id"])] = checked
    for number, identity in enumerate(delete):
        if not isinstance(identity, str) or not identity.strip():
            raise ConfigError(f"delete.{number}: expected an id, got {printable(identity)[:100]!r}")
        lines[_key(identity)] = None
    changed: dict[int, int] = {}
    with _explained(path), closing(_connected(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            total = 0
            for key, line in lines.items():
                before = connection.execute("SELECT line FROM documents WHERE id = ?", (key,)).fetchone()
                if before == (None if line is None else (line,)):
                    continue
                part, total = part_of(key), total + 1
                if line is None:
                    connection.execute("DELETE FROM documents WHERE id = ?", (key,))
                else:
                    connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (key, part, line))
                changed[part] = changed.get(part, 0) + (line is not None) - (before is not None)
            if changed:
                connection.execute("UPDATE about SET version = version + 1")
                (version,) = connection.execute("SELECT version FROM about").fetchone()
                connection.executemany(
                    "INSERT INTO parts VALUES (?1, ?2, ?3) "
                    "ON CONFLICT (part) DO UPDATE SET version = ?2, documents = documents + ?3",
                    [(part, version, more) for part, more in changed.items()],
                )
    return total


def version(path: Path) -> str:
    """Return what changes with the documents of a file; empty if there is none.

    Raises:
        MogError: it cannot be read.
    """
    if not exists(path):
        return ""
    with _explained(path), closing(_connected(path)) as connection:
        file, number = connection.execute("SELECT file, version FROM about").fetchone()
    return f"{file} {number}"


def _line(place: str, record: Any, limit: int) -> str:
    try:
        if not isinstance(record, Mapping):
            raise ValueError(f"expected keys with values, got {type(record).__name__}")
        if strange := sorted(set(record) - {"id", "title", "text", "metadata"}):
            raise ValueError(f"expected id, title, text and metadata, got {strange[0]!r}")
        # A run will detect its language.
        document_of(record, {}, language="")
        line = json.dumps(dict(record), ensure_ascii=False, sort_keys=True)
        if (size := len(line.encode())) > limit:
            raise ValueError(too_long(size, limit))
    except ValueError as error:
        raise ConfigError(f"{place}: {printable(error)}") from error
    return line


def _key(identity: str) -> str:
    """Return ids that are equal under NFC are of one document, as in every corpus."""
    return unicodedata.normalize("NFC", identity)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise MogError(
            f"the pushed documents {path} cannot be used ({error}): free disk space, or give this process the right to "
            "write the file and its folder"
        ) from error


def _connected(path: Path) -> sqlite3.Connection:
    connection = connect(path, _PATIENCE)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        if (version := ensure_tables(connection, _SCHEMA)) != _FORMAT:
            raise MogError(
                f"the pushed documents {path}: expected format {_FORMAT}, got {version}: another version of mog-assets "
                "wrote the file; use that version"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _items(place: str) -> dict[str, Item]:
    path = Path(place)
    if not exists(path):
        raise FileNotFoundError("nothing was pushed yet: push a document with `mog push`, then")
    with closing(_connected(path)) as connection:
        (file,) = connection.execute("SELECT file FROM about").fetchone()
        rows = connection.execute("SELECT part, version FROM parts WHERE documents > 0").fetchall()
    return {name_of(part): Item(f"{file} {version}") for part, version in rows}


def _read(place: str, name: str) -> Iterator[bytes]:
    with closing(_connected(Path(place))) as connection:
        query = "SELECT line FROM documents WHERE part = ? ORDER BY id"
        for (line,) in connection.execute(query, (number_of(name),)):
            yield f"{line}\n".encode()


SOURCES.register("pushed", Source(_items, _read, together=4, is_file=True))
