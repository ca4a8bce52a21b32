"""Chunks with their vectors as Parquet, for other vector databases."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.config import Settings
from mog_assets.documents.formats.marks import Mark
from mog_assets.index.encoding import vector_buckets
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.vectors import as_float32
from mog_assets.resources.store import Artefact
from mog_assets.serve.reading import headings_at, page_at
from mog_assets.text.chunks import Layout

_NAMESPACE = uuid.UUID("6d6f672d-6173-7365-7473-2f706f696e74")

_PLACE = [("corpus", pa.string()), ("document", pa.string()), ("level", pa.int32())]
_SPAN = [("start", pa.int64()), ("end", pa.int64()), ("page", pa.int32()), ("headings", pa.list_(pa.string()))]


def schema(size: int) -> pa.Schema:
    """Return the columns: the id of the point, where the chunk stands, its text, and its vector of some size."""
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
            chunks = [
                {"id": _id(chunk, vector), **chunk}
                for chunk, vector in zip(_chunks(corpus, layout, level, documents.path(name)), vectors, strict=True)
            ]
            *others, field = columns
            flat = pa.array(as_float32(vectors, np.empty(vectors.shape, np.float32)).ravel())
            table = pa.Table.from_pylist(chunks, schema=pa.schema(others))
            writer.write_table(table.append_column(field, pa.FixedSizeListArray.from_arrays(flat, type=field.type)))
            rows += len(chunks)
    return rows


def _id(chunk: Mapping[str, Any], vector: np.ndarray) -> str:
    """Return the hash of a chunk and its vector: it changes with either, and with nothing else."""
    facts = json.dumps(chunk, sort_keys=True)
    return str(uuid.uuid5(_NAMESPACE, f"{facts}\0{hashlib.sha256(vector.tobytes()).hexdigest()}"))


def _chunks(corpus: str, layout: Layout, level: int, bucket: Path) -> Iterator[dict[str, Any]]:
    """Yield the columns of the chunks of a bucket, but ids and vectors."""
    rows = pq.read_table(bucket, columns=["title", "text", "metadata", "marks"]).to_pylist()
    for row in rows:
        fields = json.loads(row["metadata"])
        notes = fields.pop("mog", {})
        row["of file"] = {name: notes[name] for name in ("path", "modified") if name in notes}
        row["metadata"] = json.dumps(fields, sort_keys=True)
        row["marks"] = [Mark(**mark) for mark in row["marks"]]
    spans = zip(*(column.tolist() for column in layout.chunk_spans(np.arange(layout.count(level)), level)), strict=True)
    for document, start, end in spans:
        row = rows[document]
        yield {
            **{"corpus": corpus, "document": layout.documents[document], "level": level, "start": start, "end": end},
            **{"page": page_at(row["marks"], start), "headings": list(headings_at(row["marks"], start)) or None},
            **row["of file"],
            **{"metadata": row["metadata"], "title": row["title"], "text": row["text"][start:end]},
        }
