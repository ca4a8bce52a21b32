"""Read Parquet files without importing pandas, which many pyarrow functions import if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a Parquet file, or some columns of it; for files that every question reads, to answer sooner."""
    # `pq.read_table` imports pyarrow.dataset, which imports pandas.
    with pq.ParquetFile(path) as file:
        return file.read(None if columns is None else list(columns))


def text_array(texts: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array; `pa.array` imports pandas."""
    builder = pa.lib.StringBuilder()
    builder.append_values(list(texts))
    return builder.finish()


def numbers(table: pa.Table, column: str) -> np.ndarray:
    """Return a column of numbers without nulls, shape (rows,); pyarrow's conversion to numpy imports pandas."""
    parts = [np.from_dlpack(part) for part in table[column].chunks]
    if not parts:
        return np.zeros(0, table.schema.field(column).type.to_pandas_dtype())
    return np.concatenate(parts)
