"""Tables of terms: sorted, with columns of numbers, mapped from their files, so that opening one reads nothing.

A term is looked up by its hash: the hashes stand in order beside the rows that they lead to. Twelve bytes a term buy
lookups of microseconds that need no dictionary of all terms in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mog_assets.resources.tables import text_array

# From so many terms on they are looked up together.
_MANY = 10_000


def write_table(terms: Sequence[str], columns: Mapping[str, np.ndarray], path: Path) -> None:
    """Write a table.

    Args:
        terms: Sorted, each once.
        columns: Numbers of every term by name.
        path: Arrow file (the IPC format, not packed) to write.
    """
    hashes = _hashes(terms)
    order = np.argsort(hashes, kind="stable")
    table = {name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()}
    table |= {"term": pa.array(terms, pa.string()), "hash": pa.array(hashes[order])}
    table["row"] = pa.array(order.astype(np.uint32))
    batch = pa.record_batch(table)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _hashes(terms: Sequence[str]) -> np.ndarray:
    """Return a number for each term: uint64 array of shape (terms,)."""
    digests = b"".join(hashlib.blake2b(term.encode(), digest_size=8).digest() for term in terms)
    return np.frombuffer(digests, "<u8")


class TermTable(Sequence[str]):
    """The terms of a table, in order.

    Args:
        path: File that `write_table` wrote.

    Raises:
        OSError, pyarrow.ArrowInvalid: it cannot be read, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        self._terms = self._batch.column("term")
        self._hash, self._row = self.column("hash"), self.column("row")
        _, offsets, letters = self._terms.buffers()
        # Of an empty table Arrow has no buffers.
        self._ends = memoryview(offsets).cast("i") if offsets else memoryview(b"")
        self._letters = memoryview(letters).cast("B") if letters else memoryview(b"")

    def __len__(self) -> int:
        return len(self._row)

    def __getitem__(self, row: Any) -> Any:
        return self._terms[row].to_pylist() if isinstance(row, slice) else self._terms[int(row)].as_py()

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms.to_pylist())

    def column(self, name: str) -> np.ndarray:
        """Return numbers of every term in order, mapped."""
        return np.from_dlpack(self._batch.column(name))

    def rows(self, terms: Sequence[str]) -> np.ndarray:
        """Return rows of some terms, −1 for those that are not there: int64 array of shape (terms,)."""
        if len(terms) >= _MANY:
            return self._many(terms)
        rows, hashes = np.full(len(terms), -1, np.int64), _hashes(terms)
        at = np.searchsorted(self._hash, hashes)
        for place in np.flatnonzero(at < len(self)).tolist():
            first, wanted = int(at[place]), terms[place].encode()
            # Different terms may have the same hash.
            while first < len(self) and self._hash[first] == hashes[place]:
                row = int(self._row[first])
                if self._letters[self._ends[row] : self._ends[row + 1]] == wanted:
                    rows[place] = row
                    break
                first += 1
        return rows

    def _many(self, terms: Sequence[str]) -> np.ndarray:
        # Here, because to import it takes longer than to answer a question.
        import pyarrow.compute as pc

        at = pc.index_in(text_array(terms), value_set=self._terms)
        # Where there is no row, its bit is 0; what Arrow has for that imports pandas.
        valid, rows = at.buffers()
        bits = np.ones(len(terms), np.uint8)
        if valid is not None:
            bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=len(terms), bitorder="little")
        return np.where(bits, np.frombuffer(rows, np.int32, len(terms)), -1).astype(np.int64)
