"""Parquet files read without `pyarrow.dataset`, which imports pandas where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file, or some columns of it: what a question needs is read by this, so that it is answered sooner."""
    with pq.ParquetFile(path) as file:
        return file.read(None if columns is None else list(columns))
