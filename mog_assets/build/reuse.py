"""Tables of rows per document, recomputed only for changed documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_KEYS = "documents"

Compute = Callable[[list[int]], pa.Table]
"""Rows of the documents at some positions of their bucket, in order: `document` (int32, the position) and further
columns."""


def write_rows(out: Path, keys: Sequence[str], previous: Path | None, compute: Compute) -> int:
    """Write the rows of all documents of a bucket, in order, reusing those of a previous file.

    Args:
        out: Parquet file to write; its bytes depend only on `keys` and `compute`, not on `previous`.
        keys: Per document, what determines its rows, except what is the same for all documents of both files.
        previous: A file that this function wrote for an earlier state of the bucket, or None.
        compute: See `Compute`; called with the positions of documents whose keys `previous` does not have.

    Returns:
        Number of documents computed.
    """
    parts = []
    positions: dict[str, int] = {}
    if previous is not None:
        table = pq.read_table(previous)
        noted = pq.read_metadata(previous).metadata[_KEYS.encode()]
        positions = {key: document for document, key in enumerate(json.loads(noted))}
        reused = [position for position, key in enumerate(keys) if key in positions]
        parts += [_taken(table, [positions[keys[position]] for position in reused], reused)] if reused else []
    missing = [position for position, key in enumerate(keys) if key not in positions]
    if missing:
        parts.append(compute(missing))
    rows = pa.concat_tables(parts).combine_chunks()
    if len(parts) > 1:
        rows = rows.take(np.argsort(rows["document"].to_numpy(), kind="stable")).combine_chunks()
    with pq.ParquetWriter(out, rows.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({_KEYS: json.dumps(list(keys))})
    return len(missing)


def _taken(table: pa.Table, documents: list[int], positions: list[int]) -> pa.Table:
    """Return the rows of these documents of a table, as those of documents at `positions`."""
    column = table["document"].to_numpy()
    first, last = np.searchsorted(column, documents), np.searchsorted(column, documents, side="right")
    counts = last - first
    rows = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    position = pa.array(np.repeat(positions, counts).astype(np.int32))
    return table.take(rows).set_column(0, "document", position)
