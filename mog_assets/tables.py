"""Read Parquet files without importing pandas, which many pyarrow functions import if it is installed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file, or some columns of it; for files that every question reads, to answer sooner."""
    # `pq.read_table` imports pyarrow.dataset, which imports pandas.
    with pq.ParquetFile(path) as file:
        return file.read(None if columns is None else list(columns))


def text_array(texts: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array; `pa.array` imports pandas."""
    builder = pa.lib.StringBuilder()
    builder.append_values(list(texts))
    return builder.finish()


def numbers(table: pa.Table, column: str) -> np.ndarray:
    """A column of numbers without nulls, shape (rows,); pyarrow's conversion to numpy imports pandas."""
    parts = [np.from_dlpack(part) for part in table[column].chunks]
    if not parts:
        return np.zeros(0, table.schema.field(column).type.to_pandas_dtype())
    return np.concatenate(parts)


def take(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Rows of a table by number, in this order; with a numpy array, pyarrow would import pandas."""
    chosen = np.ascontiguousarray(rows, np.int64)
    return table.take(pa.Array.from_buffers(pa.int64(), len(chosen), [None, pa.py_buffer(chosen)]))


class OpenTables:
    """Tables that were read before, as many as fit: reading one takes a hundred times longer than taking a row of it.

    Args:
        most: Most bytes of tables that stay open, unpacked.
    """

    def __init__(self, most: int = 256 << 20) -> None:
        self._most, self._bytes = most, 0
        self._tables: OrderedDict[Path, pa.Table] = OrderedDict()
        self._lock = Lock()

    def read(self, path: Path) -> pa.Table:
        """A Parquet file that never changes."""
        with self._lock:
            if path in self._tables:
                self._tables.move_to_end(path)
                return self._tables[path]
        table = read_table(path)
        with self._lock:
            if path not in self._tables:
                self._tables[path] = table
                self._bytes += table.nbytes
            while self._bytes > self._most and len(self._tables) > 1:
                self._bytes -= self._tables.popitem(last=False)[1].nbytes
        return table
