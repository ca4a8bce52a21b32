"""Vectors of chunks: level 1 is encoded, coarser levels are pooled from it (or encoded as well)."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mog_assets.arrays import save_array
from mog_assets.chunking.chunks import Layout, chunk_text
from mog_assets.chunking.layouts import bucket_layout
from mog_assets.corpus.marks import Mark, headings_at, page_at

# Files of vectors that are smaller are joined in memory, up to this many bytes: a product with each costs a call.
_BLOCK_BYTES = 64 << 20
# From so many questions on, a product in float32 is faster than one in the float16 of the file.
_MANY = 8
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


@dataclass(frozen=True)
class Pooling:
    """How products with the vectors of a level follow from those with level 1: both are weighted sums, see `pool`.

    Attributes:
        first: First piece of each chunk of the level.
        sizes: Characters of every piece, float32.
        lengths: What `pool` divides the sum of each chunk by, float32.
    """

    first: np.ndarray
    sizes: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, table: VectorTable, layout: Layout, level: int) -> Pooling:
        """That of a level, from the level-1 vectors; files of the table end where documents end."""
        first, _ = layout.covered(np.arange(layout.count(level)), level)
        sizes = np.diff(layout.spans, axis=1).astype(np.float32)
        found, begin = [np.zeros(0, np.float32)], 0
        for block in table.blocks:
            own = first[slice(*np.searchsorted(first, [begin, begin + len(block)]))] - begin
            if len(own):
                sums = np.add.reduceat(block * sizes[begin : begin + len(block)], own)
                found.append(np.linalg.norm(sums, axis=1))
            begin += len(block)
        return cls(first, sizes[:, 0], np.maximum(np.concatenate(found), 1e-12))

    def pooled(self, products: np.ndarray) -> np.ndarray:
        """Products with the chunks of the level, from those with all pieces: of shape (n, chunks)."""
        if not len(self.first):
            return products
        return np.add.reduceat(products * self.sizes, self.first, axis=1) / self.lengths


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
        unpacked: Keep `blocks` in float32, in memory: twice the bytes, and a product with one question takes 6 ms
            instead of 10 for 50,000 vectors (benchmarks/serving.py), with 32 questions no more than 13.

    Attributes:
        parts: The array of each file.
    """

    def __init__(self, paths: Sequence[Path], unpacked: bool = False) -> None:
        self.unpacked = unpacked
        # Copied on write, which never happens: torch warns of read-only arrays.
        self.parts = [np.load(path, mmap_mode="c") for path in paths]
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

    @cached_property
    def blocks(self) -> list[np.ndarray]:
        """The vectors in few arrays: files are joined unless they are large."""
        joined: list[np.ndarray] = []
        waiting: list[np.ndarray] = []
        for part in self.parts:
            if waiting and sum(p.nbytes for p in waiting) + part.nbytes > _BLOCK_BYTES:
                joined.append(np.concatenate(waiting) if len(waiting) > 1 else waiting[0])
                waiting = []
            waiting.append(part)
        joined.append(np.concatenate(waiting) if len(waiting) > 1 else waiting[0])
        return [block.astype(np.float32) for block in joined] if self.unpacked else joined

    def products(self, vectors: np.ndarray) -> np.ndarray:
        """Dot products of all vectors with some others.

        Args:
            vectors: Shape (n, size).

        Returns:
            float32 array of shape (n, vectors of the table). With few vectors, and unless the table is unpacked,
            products are rounded to float16: unpacking all vectors takes longer than everything else.
        """
        import torch

        found, first = np.empty((len(vectors), len(self)), np.float32), 0
        halves = torch.from_numpy(np.ascontiguousarray(vectors, np.float16))
        for block in self.blocks:
            if not len(block):
                continue
            out = found[:, first : first + len(block)]
            if not self.unpacked and len(vectors) < _MANY:
                held = torch.frombuffer(block, dtype=torch.float16).view(block.shape)
                for row, half in zip(out, halves, strict=True):
                    row[:] = torch.mv(held, half).numpy()
            else:
                np.matmul(np.asarray(vectors, np.float32), block.astype(np.float32, copy=False).T, out=out)
            first += len(block)
        return found

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of these chunks, float16 of shape (len(rows), size)."""
        part = np.searchsorted(self._offsets, rows, side="right") - 1
        result = np.empty((len(rows), self.size), np.float16)
        for number in np.unique(part):
            here = part == number
            result[here] = self.parts[number][rows[here] - self._offsets[number]]
        return result


def told_of_documents(bucket: Path) -> list[tuple[dict[str, Any], tuple[Mark, ...]]]:
    """What points tell of the documents of a bucket, in order: path, date and metadata; and where their pages begin."""
    table = pq.read_table(bucket, columns=["metadata", "marks"])
    found = []
    for metadata, marks in zip(table["metadata"].to_pylist(), table["marks"].to_pylist(), strict=True):
        own = json.loads(metadata)
        notes = own.pop("mog", {}) if isinstance(own, dict) else {}
        told = {name: notes[name] for name in ("path", "modified") if name in notes}
        found.append(({**told, **({"metadata": own} if own else {})}, tuple(Mark(**mark) for mark in marks)))
    return found


def payloads(
    corpus: str, layout: Layout, level: int, told: Sequence[tuple[dict[str, Any], tuple[Mark, ...]]]
) -> list[dict[str, Any]]:
    """The payload of every point of a level: its place, and what is known of its document.

    Args:
        corpus: Name of the corpus.
        layout: Its layout.
        level: The level.
        told: Of every document, see `told_of_documents`.

    Returns:
        `corpus`, `document`, `level`, `start`, `end`; where there are any, `page` (or slide) and `headings` there,
        `path` and `modified` of the file, and the document's `metadata`.
    """
    found = []
    rows = zip(*(column.tolist() for column in layout.chunk_spans(np.arange(layout.count(level)), level)), strict=True)
    for document, start, end in rows:
        of_document, marks = told[document]
        place = {"corpus": corpus, "document": layout.documents[document], "level": level, "start": start, "end": end}
        page, headings = page_at(marks, start), headings_at(marks, start)
        found.append(
            {
                **place,
                **({} if page is None else {"page": page}),
                **({"headings": list(headings)} if headings else {}),
                **of_document,
            }
        )
    return found


def point_ids(payloads: Sequence[dict[str, Any]], vectors: Iterable[np.ndarray]) -> list[str]:
    """Ids of the points of a level: hashes of payload and vector, so a point is never stale.

    Settings are not part of the id: after a setting is changed and changed back, the ids are those of a rebuilt
        project.

    Args:
        payloads: Of each chunk, in order.
        vectors: Of each chunk, in order.

    Returns:
        uuid5 of payload and vector.
    """
    ids = []
    for payload, vector in zip(payloads, vectors, strict=True):
        told = json.dumps(payload, sort_keys=True, ensure_ascii=False)
        ids.append(str(uuid.uuid5(_NAMESPACE, f"{told}\0{hashlib.sha256(vector.tobytes()).hexdigest()}")))
    return ids
