"""Read Parquet files without importing pandas, which many pyarrow functions import if it is installed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# Files whose groups are remembered.
_FILES = 256


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


class OpenTables:
    """Rows of Parquet files that never change, a group of rows at a time.

    Groups that were read before stay, as many as fit: reading one takes a hundred times longer than taking a row of it.

    Args:
        most: Most bytes of groups that stay, unpacked.
    """

    def __init__(self, most: int = 256 << 20) -> None:
        self._most, self._bytes = most, 0
        self._groups: OrderedDict[tuple[Path, int], pa.Table] = OrderedDict()
        self._files: OrderedDict[Path, tuple[pq.FileMetaData, np.ndarray]] = OrderedDict()
        self._lock = Lock()

    def take(self, path: Path, rows: np.ndarray, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Some rows of a file, ascending by number."""
        metadata, starts = self._file(path)
        group, taken = np.searchsorted(starts, rows, side="right") - 1, []
        for number, row in zip(group.tolist(), (rows - starts[group]).tolist(), strict=True):
            table = self._group(path, metadata, number)
            # Few rows are taken of many: value by value takes a third of the time of `table.take`.
            taken.append({name: table[name][row].as_py() for name in columns})
        return taken

    def _file(self, path: Path) -> tuple[pq.FileMetaData, np.ndarray]:
        """What a file says of its groups, and the first row of each."""
        with self._lock:
            if path in self._files:
                self._files.move_to_end(path)
                return self._files[path]
        metadata = pq.read_metadata(path)
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        file = metadata, np.cumsum([0, *sizes])[:-1]
        with self._lock:
            self._files[path] = file
            while len(self._files) > _FILES:
                self._files.popitem(last=False)
        return file

    def _group(self, path: Path, metadata: pq.FileMetaData, number: int) -> pa.Table:
        key = path, number
        with self._lock:
            if key in self._groups:
                self._groups.move_to_end(key)
                return self._groups[key]
        with pq.ParquetFile(path, metadata=metadata) as file:
            table = file.read_row_group(number, use_threads=False)
        with self._lock:
            if key not in self._groups:
                self._groups[key] = table
                self._bytes += table.nbytes
            while self._bytes > self._most and len(self._groups) > 1:
                self._bytes -= self._groups.popitem(last=False)[1].nbytes
        return table
