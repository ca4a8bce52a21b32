"""Chunks with their vectors as Parquet, for other vector databases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.config import Settings
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.points import payloads, point_ids, read_payloads
from mog_assets.index.vectors import as_float32, vector_buckets
from mog_assets.resources.store import Artefact

_PLACE = [("corpus", pa.string()), ("document", pa.string()), ("level", pa.int32())]
_SPAN = [("start", pa.int64()), ("end", pa.int64()), ("page", pa.int32()), ("headings", pa.list_(pa.string()))]


def schema(size: int) -> pa.Schema:
    """The columns: the id of the point, where the chunk stands, its text, and its vector of some size."""
    of_file = [("path", pa.string()), ("modified", pa.string()), ("metadata", pa.string())]
    texts = [("title", pa.string()), ("text", pa.string())]
    return pa.schema([("id", pa.string()), *_PLACE, *_SPAN, *of_file, *texts, ("vector", pa.list_(pa.float32(), size))])


def write(read: Callable[[str], Artefact], settings: Settings, corpus: str, level: int, target: Path) -> int:
    """Write the chunks of a level of a corpus, a row each, in the order of the documents.

    One bucket of documents is in memory at a time.

    Args:
        read: Reads an asset of the corpus.
        settings: The settings.
        corpus: Its name.
        level: The level, from 1.
        target: The file.

    Returns:
        How many there are.
    """
    documents, buckets = read("documents"), vector_buckets(read, level)
    columns = schema(int(read(f"embeddings/level_{level}").manifest.counts["size"]))
    rows = 0
    with pq.ParquetWriter(target, columns, compression="zstd") as writer:
        for name, bucket in zip(documents.names("bucket"), buckets, strict=True):
            layout = bucket_layout(Path(bucket.documents), Path(bucket.spans))
            vectors = np.asarray(bucket.open())
            points = payloads(corpus, layout, level, read_payloads(documents.path(name)))
            stored = pq.read_table(documents.path(name), columns=["id", "title", "text"]).to_pylist()
            of = {row["id"]: row for row in stored}
            chunks = [
                {
                    **point,
                    "id": id,
                    "title": of[point["document"]]["title"],
                    "text": of[point["document"]]["text"][point["start"] : point["end"]],
                    "metadata": json.dumps(point.get("metadata", {}), ensure_ascii=False, sort_keys=True),
                }
                for id, point in zip(point_ids(points, vectors), points, strict=True)
            ]
            *others, field = columns
            flat = pa.array(as_float32(vectors, np.empty(vectors.shape, np.float32)).ravel())
            table = pa.Table.from_pylist(chunks, schema=pa.schema(others))
            writer.write_table(table.append_column(field, pa.FixedSizeListArray.from_arrays(flat, type=field.type)))
            rows += len(chunks)
    return rows
