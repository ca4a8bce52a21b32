"""The outcomes of earlier readings of a corpus, so that unchanged records are not read again.

Each row says: these bytes, read by this version, give this outcome. So it stays valid whatever happens to the artefact,
and can be deleted at any time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.documents.folders import Stamp

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
        """The records of an unchanged file, if all their outcomes are known."""
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
    """The memory at `path`; empty if it is missing, damaged, or has another signature."""
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
