"""Arrays of a sentence graph on disk: compressed columns of small numbers, which are read as a whole.

Numbers of nodes are stored as differences: with the bytes of a number split by place (Parquet's BYTE_STREAM_SPLIT),
zstd makes a tenth of the plain arrays of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mog_assets.resources.tables import numbers, read_table

_UNSIGNED = (np.uint8, np.uint16, np.uint32)


def save_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write arrays of the same length; the bytes depend only on them."""
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    split = {name: "PLAIN" if column.dtype.itemsize == 1 else "BYTE_STREAM_SPLIT" for name, column in columns.items()}
    pq.write_table(table, path, compression="zstd", use_dictionary=False, column_encoding=split, store_schema=False)


def load_columns(path: Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read arrays that `save_columns` wrote, or some of them by name."""
    table = read_table(path, names)
    return {name: numbers(table, name) for name in table.column_names}


def differences(values: np.ndarray) -> np.ndarray:
    """Return what each number adds to the one before it, the first to 0: int32 array, undone by `sums`."""
    return np.diff(values.astype(np.int32, copy=False), prepend=np.int32(0)).astype(np.int32, copy=False)


def sums(values: np.ndarray) -> np.ndarray:
    """Return the numbers of `differences`, int32."""
    totals: np.ndarray = np.cumsum(values, dtype=np.int32)
    return totals


def save_matrix(path: Path, matrix: Any) -> None:
    """Write a CSR matrix of counts as scipy's `.npz` file, its numbers in the narrowest types that hold them."""
    with path.open("wb") as stream:
        np.savez_compressed(
            stream,
            format=np.array(b"csr"),
            shape=np.array(matrix.shape),
            data=_narrowest(matrix.data),
            indices=_narrowest(matrix.indices),
            indptr=matrix.indptr,
        )


def load_matrix(path: Path) -> Any:
    """Read a matrix that `save_matrix` or scipy's `save_npz` wrote: int32 CSR."""
    return sparse.load_npz(path).astype(np.int32)


def _narrowest(values: np.ndarray) -> np.ndarray:
    greatest = values.max(initial=0)
    return values.astype(next((kind for kind in _UNSIGNED if greatest <= np.iinfo(kind).max), values.dtype))
