"""Tables of terms: sorted, with columns of numbers, mapped from their files, so that opening one reads nothing.

A term is looked up by its hash: the hashes stand in order beside the rows that they lead to. Twelve bytes a term buy
lookups of microseconds that need no dictionary of all terms in memory; small tables have one, which is faster.
"""

from __future__ import annotations

import hashlib
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mog_assets.resources.tables import text_array

# From so many terms on they are looked up together.
_MANY = 10_000
# Up to so many terms, a dictionary takes hundredths of a second and some megabytes.
_SMALL = 1 << 16
# Lookups that are remembered.
_REMEMBERED = 64


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
    """A number for each term: uint64 array of shape (terms,)."""
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
        # The terms of a question are looked up for every level.
        self._remembered = lru_cache(_REMEMBERED)(self._few)
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
        """Numbers of every term in order, mapped."""
        return np.from_dlpack(self._batch.column(name))

    def rows(self, terms: Sequence[str]) -> np.ndarray:
        """Rows of some terms, −1 for those that are not there: int64 array of shape (terms,)."""
        if len(terms) >= _MANY:
            return self._many(terms)
        return self._few(tuple(terms)) if len(self) <= _SMALL else self._remembered(tuple(terms))

    @cached_property
    def _number(self) -> dict[str, int]:
        return {term: row for row, term in enumerate(self)}

    def _few(self, terms: tuple[str, ...]) -> np.ndarray:
        if len(self) <= _SMALL:
            number = self._number
            return np.array([number.get(term, -1) for term in terms], np.int64)
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
        rows.flags.writeable = False
        return rows

    def _many(self, terms: Sequence[str]) -> np.ndarray:
        at = pc.index_in(text_array(terms), value_set=self._terms)
        # Where there is no row, its bit is 0; what Arrow has for that imports pandas.
        valid, rows = at.buffers()
        bits = np.ones(len(terms), np.uint8)
        if valid is not None:
            bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=len(terms), bitorder="little")
        return np.where(bits, np.frombuffer(rows, np.int32, len(terms)), -1).astype(np.int64)


class Together(Mapping[str, int]):
    """A column of several tables as one mapping: the numbers of a term are added up.

    Args:
        tables: The tables.
        name: Of the column.
        least: What a term counts for at least in each table that has it.
    """

    def __init__(self, tables: Sequence[TermTable], name: str, least: int = 0) -> None:
        self._tables, self._least = tables, least
        self._columns = [table.column(name) for table in tables]
        self._remembered = lru_cache(_REMEMBERED)(self._sums)

    def values_of(self, terms: Sequence[str]) -> np.ndarray:
        """Sums of some terms, 0 of those that no table has: int64 array of shape (terms,)."""
        return self._remembered(tuple(terms)) if len(terms) < _MANY else self._sums(terms)

    def _sums(self, terms: Sequence[str]) -> np.ndarray:
        total = np.zeros(len(terms), np.int64)
        for table, column in zip(self._tables, self._columns, strict=True):
            rows = table.rows(terms)
            at = np.flatnonzero(rows >= 0)
            total[at] += np.maximum(column[rows[at]], self._least).astype(np.int64)
        total.flags.writeable = False
        return total

    def starting(self, prefix: str) -> list[str]:
        """The terms that begin with some letters, sorted."""
        terms: set[str] = set()
        for table in self._tables:
            first = bisect_left(table, prefix)
            terms.update(table[first : bisect_left(table, f"{prefix}{chr(sys.maxunicode)}", first)])
        return sorted(terms)

    def most_frequent(self, count: int) -> tuple[list[str], np.ndarray]:
        """The terms with the greatest sums, at most `count`, and their sums; of equal ones the first by letters."""
        terms = self._with([_kth(column, count) for column in self._columns])
        if len(self._tables) > 1:
            sums = np.sort(self.values_of(terms))
            # A term with one of the greatest sums has its share of it in one of the tables.
            least = (sums[-count] if len(sums) > count else 1) / len(self._tables)
            terms = self._with([least] * len(self._tables))
        values = self.values_of(terms)
        order = np.argsort(-values, kind="stable")[:count]
        return [terms[row] for row in order.tolist()], values[order]

    def _with(self, least: Sequence[float]) -> list[str]:
        """Terms that have so great a number in any of the tables, sorted."""
        terms: set[str] = set()
        for table, column, limit in zip(self._tables, self._columns, least, strict=True):
            terms.update(table[row] for row in np.flatnonzero(column >= limit).tolist())
        return sorted(terms)

    @cached_property
    def _every(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for table, column in zip(self._tables, self._columns, strict=True):
            for term, value in zip(table, np.maximum(column, self._least).tolist(), strict=True):
                total[term] = total.get(term, 0) + value
        return total

    def __getitem__(self, term: str) -> int:
        if not any((table.rows([term]) >= 0).any() for table in self._tables):
            raise KeyError(term)
        return int(self.values_of([term])[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._every)

    def __len__(self) -> int:
        return len(self._every)

    def items(self) -> Any:
        """See `dict.items`: all terms at once."""
        return self._every.items()


def _kth(column: np.ndarray, count: int) -> float:
    """The number at a place from above."""
    return float(np.partition(column, len(column) - count)[-count]) if len(column) > count else 0.0
