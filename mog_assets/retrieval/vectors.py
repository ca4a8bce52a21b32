"""Vectors of chunks: level 1 is encoded, coarser levels are pooled from it (or encoded as well)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mog_assets.arrays import save_array
from mog_assets.chunking.chunks import Layout, chunk_text
from mog_assets.chunking.layouts import bucket_layout

# Ids of points are uuid5 in this namespace.
_NAMESPACE = uuid.UUID("6d6f672d-6173-7365-7473-2f706f696e74")


def bucket_texts(documents: Path, layout: Layout, level: int) -> list[str]:
    """`chunk_text` of every chunk of a level of one bucket, in order."""
    table = pq.read_table(documents, columns=["title", "text"])
    titles, texts = table["title"].to_pylist(), table["text"].to_pylist()
    rows = zip(*layout.chunk_spans(np.arange(layout.count(level)), level), strict=True)
    return [chunk_text(titles[d], texts[d][s:e]) for d, s, e in rows]


def pool(finest: np.ndarray, layout: Layout, level: int) -> np.ndarray:
    """Vectors of a level from those of level 1: means weighted by length in characters, scaled to length 1.

    Args:
        finest: Level-1 vectors, float16 of shape (level-1 chunks, size).
        layout: Of the chunks.
        level: The level to make.

    Returns:
        float16 array of shape (chunks of the level, size).
    """
    first, _ = layout.covered(np.arange(layout.count(level)), level)
    vectors = finest.astype(np.float32)
    if len(first):
        vectors = np.add.reduceat(vectors * np.diff(layout.spans, axis=1).astype(np.float32), first)
    return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype(np.float16)


def pool_bucket(documents: str, spans: str, finer: str, level: int, out: str) -> int:
    """`pool` for one bucket.

    Args:
        documents: Parquet file of the documents.
        spans: Parquet file of their level-1 spans.
        finer: `.npy` file of the level-1 vectors.
        level: The level to make.
        out: `.npy` file to write.

    Returns:
        Number of vectors written.
    """
    pooled = pool(np.load(finer, mmap_mode="r"), bucket_layout(Path(documents), Path(spans)), level)
    save_array(Path(out), pooled)
    return len(pooled)


class VectorTable:
    """Vectors of one level of one corpus, mapped from the files of its buckets.

    Args:
        paths: `.npy` files of the buckets, in order.

    Attributes:
        parts: The array of each file.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.parts = [np.load(path, mmap_mode="r") for path in paths]
        self._offsets = np.concatenate([[0], np.cumsum([len(p) for p in self.parts])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def __iter__(self) -> Iterator[np.ndarray]:
        # Rows of a memory-mapped array are slow to create.
        return chain.from_iterable(map(np.asarray, self.parts))

    @property
    def size(self) -> int:
        """Entries of a vector."""
        return int(self.parts[0].shape[1])

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of these chunks, float16 of shape (len(rows), size)."""
        part = np.searchsorted(self._offsets, rows, side="right") - 1
        result = np.empty((len(rows), self.size), np.float16)
        for number in np.unique(part):
            here = part == number
            result[here] = self.parts[number][rows[here] - self._offsets[number]]
        return result


def point_ids(corpus: str, layout: Layout, level: int, vectors: Iterable[np.ndarray]) -> list[str]:
    """Ids of the points of a level: hashes of payload and vector, so a point is never stale.

    Settings are not part of the id: after a setting is changed and changed back, the ids are those of a rebuilt
        project.

    Args:
        corpus: Name of the corpus.
        layout: Its layout.
        level: The level.
        vectors: Of each chunk, in order.

    Returns:
        uuid5 of corpus, document, level, span and vector.
    """
    rows = zip(*layout.chunk_spans(np.arange(layout.count(level)), level), vectors, strict=True)
    ids = []
    for document, start, end, vector in rows:
        sha = hashlib.sha256(vector.tobytes()).hexdigest()
        name = f"{corpus}\0{layout.documents[document]}\0{level}\0{start}\0{end}\0{sha}"
        ids.append(str(uuid.uuid5(_NAMESPACE, name)))
    return ids
