"""Tables of terms: sorted, with columns of numbers, mapped from their files, so that opening one reads nothing.

A term is looked up by its hash: the hashes stand in order beside the rows that they lead to. Twelve bytes a term buy
lookups of microseconds that need no dictionary of all terms in memory. Where the tables of a project have few terms,
one dictionary of all is faster: `Terms`.
"""

from __future__ import annotations

import hashlib
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mog_assets.resources.tables import text_array

# From so many terms on they are looked up together.
_MANY = 10_000
# Up to so many terms of all tables, a dictionary takes a fifth of a second and some megabytes.
_SMALL = 1 << 18
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


class Terms:
    """Looks terms up in several tables at once.

    Args:
        tables: The tables.
    """

    def __init__(self, tables: Sequence[TermTable]) -> None:
        self.tables = tables
        # The terms of a question are looked up for pieces, titles and spelling.
        self._remembered = lru_cache(_REMEMBERED)(self._by_hash)

    @cached_property
    def numbers(self) -> dict[str, int] | None:
        """A number for each term, in the order of the tables; None of terms too many for a dictionary."""
        if sum(map(len, self.tables)) > _SMALL:
            return None
        number: dict[str, int] = {}
        for table in self.tables:
            for term in table:
                number.setdefault(term, len(number))
        return number

    @cached_property
    def _rows(self) -> np.ndarray:
        """Rows of numbered terms in each table, and a column of −1 for those without a number."""
        assert self.numbers is not None
        rows = np.full((len(self.tables), len(self.numbers) + 1), -1, np.int32)
        for place, table in enumerate(self.tables):
            rows[place, self.numbered(table)] = np.arange(len(table))
        return rows

    def numbered(self, terms: Iterable[str]) -> list[int]:
        """Return the numbers of some terms, −1 of those that no table has."""
        assert self.numbers is not None
        number = self.numbers.get
        return [number(term, -1) for term in terms]

    def rows(self, terms: Sequence[str]) -> np.ndarray:
        """Rows of some terms in each table, −1 where they are not there: integers of shape (tables, terms)."""
        if self.numbers is not None:
            return self._rows[:, self.numbered(terms)]
        return self._remembered(tuple(terms)) if len(terms) < _MANY else self._by_hash(terms)

    def _by_hash(self, terms: Sequence[str]) -> np.ndarray:
        rows = np.full((len(self.tables), len(terms)), -1, np.int64)
        for place, table in enumerate(self.tables):
            rows[place] = table.rows(terms)
        rows.flags.writeable = False
        return rows


class Sums:
    """Numbers of terms that stand in the columns of several tables, added up over these.

    Args:
        terms: Looks terms up in the tables.
        columns: Some columns of each table, all of numbers of 0 or more.
    """

    def __init__(self, terms: Terms, columns: Sequence[Sequence[np.ndarray]]) -> None:
        self._terms, self._columns, self._count = terms, columns, len(columns[0]) if columns else 1

    @cached_property
    def _every(self) -> np.ndarray:
        """The sums of numbered terms, and 0 for those without a number."""
        assert self._terms.numbers is not None
        every = np.zeros((self._count, len(self._terms.numbers) + 1), np.int64)
        for table, columns in zip(self._terms.tables, self._columns, strict=True):
            every[:, self._terms.numbered(table)] += columns
        return every

    def of(self, terms: Sequence[str]) -> np.ndarray:
        """Sums of some terms, 0 of those that no table has: int64 array of shape (columns, terms)."""
        if self._terms.numbers is not None:
            return self._every[:, self._terms.numbered(terms)]
        total = np.zeros((self._count, len(terms)), np.int64)
        for columns, rows in zip(self._columns, self._terms.rows(terms), strict=True):
            at = np.flatnonzero(rows >= 0)
            total[:, at] += [column[rows[at]] for column in columns]
        return total


class Together:
    """A column of several tables as one: the numbers of a term are added up.

    Args:
        terms: Looks terms up in the tables.
        name: Of the column.
        least: What a term counts for at least in each table that has it.
    """

    def __init__(self, terms: Terms, name: str, least: int = 0) -> None:
        self._tables, self._terms, self._least = terms.tables, terms, least
        self._columns = [table.column(name) for table in terms.tables]
        self._summed = Sums(terms, [[np.maximum(column, least) if least else column] for column in self._columns])

    def values_of(self, terms: Sequence[str]) -> np.ndarray:
        """Sums of some terms, 0 of those that no table has: int64 array of shape (terms,)."""
        values: np.ndarray = self._summed.of(terms)[0]
        return values

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

    def totals(self) -> dict[str, int]:
        """Return the sums of all terms."""
        total: dict[str, int] = {}
        for table, column in zip(self._tables, self._columns, strict=True):
            for term, value in zip(table, np.maximum(column, self._least).tolist(), strict=True):
                total[term] = total.get(term, 0) + value
        return total


def _kth(column: np.ndarray, count: int) -> float:
    """The number at a place from above."""
    return float(np.partition(column, len(column) - count)[-count]) if len(column) > count else 0.0
