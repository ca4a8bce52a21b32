"""What is kept of the files of a corpus: hashes and outcomes of earlier readings, and texts while it is read.

Hashes tell that an edit is none, and outcomes that unchanged records are not read again. Both may be deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.documents.folders import Stamp, digest, scan
from mog_assets.resources.errors import MogError
from mog_assets.resources.files import atomic
from mog_assets.resources.scratch import Scratch


def source_state(path: Path, limit: int, questions: Collection[str] = (), cache: Path | None = None) -> list[list[Any]]:
    """Return the state of a corpus, as JSON: equal unless something was added, edited, renamed, touched or removed.

    An edit may leave size and time of a file as they were, and a copy may change everything but these. The stamp tells
    of the first, the hash that the second is none. Only files whose stamp is another than that in the cache are opened.
    """
    states, stored = list[list[Any]](), _stored(cache)
    hashes: dict[str, list[int | str]] = {}
    for file in scan(path, limit, questions):
        if file.status is None or file.refusal:
            states.append([file.place, file.refusal])
            continue
        stamp, started, noted = Stamp.of(file.status), time.time_ns(), stored.get(file.place, [])
        try:
            noted = noted if noted[:-1] == list(stamp) else [*stamp, digest(file.path)]
            if stamp.settled(started):
                hashes[file.place] = noted
        except OSError as error:
            noted = [f"cannot be read: {error.strerror}"]
        states.append([file.place, stamp.mtime_ns, noted[-1]])
    if cache is not None and hashes != stored:
        # Nothing but time is lost without them.
        with contextlib.suppress(OSError, MogError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            with atomic(cache) as temporary:
                temporary.write_text(json.dumps(hashes), encoding="utf-8")
    return states


def _stored(cache: Path | None) -> dict[str, list[int | str]]:
    """Return the hashes in a cache, which may be deleted, or damaged."""
    try:
        stored = json.loads(cache.read_bytes()) if cache is not None else {}
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


_SCHEMA = pa.schema(
    [
        ("file", pa.binary()),
        ("line", pa.int64()),
        ("raw", pa.binary()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("ctime_ns", pa.int64()),
        ("inode", pa.uint64()),
        ("id", pa.string()),
        ("digest", pa.string()),
        ("characters", pa.int64()),
        ("bytes", pa.int64()),
        ("reason", pa.string()),
    ]
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one record, independent of the rest of its corpus.

    Attributes:
        id: Of the document, or a substitute.
        digest: Of everything that is stored of the document; empty if the record is skipped.
        characters: Of the normalised text.
        bytes: Of the normalised text as UTF-8.
        reason: Why it is skipped; empty for a document.
    """

    id: str
    digest: str = ""
    characters: int = 0
    bytes: int = 0
    reason: str = ""


@dataclass
class Memory:
    """Outcomes by SHA-256 of the record, and the records (line, SHA-256) of every file with a settled stamp."""

    outcomes: dict[bytes, Outcome] = field(default_factory=dict)
    files: dict[str, tuple[Stamp, list[tuple[int, bytes]]]] = field(default_factory=dict)

    def of_file(self, name: str, stamp: Stamp) -> list[tuple[int, bytes]] | None:
        """Return the records of an unchanged file, if all their outcomes are known."""
        stamp_before, records = self.files.get(name, (None, []))
        if stamp_before != stamp or any(raw not in self.outcomes for _, raw in records):
            return None
        return records

    def forget(self, digests: set[str]) -> None:
        """Remove the outcomes of these documents."""
        self.outcomes = {raw: outcome for raw, outcome in self.outcomes.items() if outcome.digest not in digests}


@dataclass
class Journal:
    """The memory that a reading writes, one row per record."""

    rows: list[tuple[str, int, bytes, Stamp | None, Outcome]] = field(default_factory=list)

    def write(self, path: Path, signature: str) -> None:
        """Write it as Parquet."""
        columns: dict[str, list] = {name: [] for name in _SCHEMA.names}
        for name, line, raw, stamp, outcome in self.rows:
            stamped = stamp._asdict() if stamp else dict.fromkeys(Stamp._fields)
            row = {"file": os.fsencode(name), "line": line, "raw": raw, **stamped, **vars(outcome)}
            for key, value in row.items():
                columns[key].append(value)
        table = pa.table(columns, schema=_SCHEMA.with_metadata({"signature": signature}))
        pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def load_memory(path: Path, signature: str) -> Memory:
    """Return the memory at `path`; empty if it is missing, damaged, or has another signature."""
    memory = Memory()
    try:
        if (pq.read_schema(path).metadata or {}).get(b"signature") != signature.encode():
            return memory
        columns = pq.read_table(path, page_checksum_verification=True).to_pydict()
        rows = zip(*(columns[name] for name in _SCHEMA.names), strict=True)
        for file, line, raw, size, mtime, ctime, inode, *outcome in rows:
            memory.outcomes[raw] = Outcome(*outcome)
            if size is not None:
                stamp = Stamp(size, mtime, ctime, inode)
                memory.files.setdefault(os.fsdecode(file), (stamp, []))[1].append((line, raw))
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        return Memory()
    return memory


class Spool(Mapping[str, str]):
    """Texts by key, on disk."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = Scratch(folder)
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, key: str, text: str) -> None:
        """Add a text; an existing text with this key stays. Raises MogError if the disk is full."""
        if key not in self._places:
            content = text.encode()
            self._places[key] = self._file.append([content]), len(content)

    def __getitem__(self, key: str) -> str:
        return self._file.read(*self._places[key]).decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
