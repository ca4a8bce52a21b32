"""Vectors of chunks: level 1 is encoded, coarser levels are pooled from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mog_assets.index.layouts import bucket_layout
from mog_assets.resources.arrays import save_array
from mog_assets.resources.store import Artefact
from mog_assets.text.chunks import Layout, chunk_text

# Vectors that are held in memory, not mapped, up to this many bytes.
_MEMORY_BYTES = 64 << 20
# Level-1 vectors that are unpacked at a time to be pooled.
_POOLED_AT_ONCE = 1 << 15


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
    return unit_sums(finest, piece_sizes(layout), first)


def piece_sizes(layout: Layout) -> np.ndarray:
    """Characters of every level-1 chunk, float32."""
    return np.diff(layout.spans, axis=1)[:, 0].astype(np.float32)


def _sums(finest: np.ndarray, sizes: np.ndarray, first: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Weighted sums of pieces, and what divides each of them to have length 1.

    A sum depends on its own pieces alone, to the bit, whichever others are asked for.

    Args:
        finest: Vectors of the pieces, shape (pieces, size).
        sizes: Characters of every piece.
        first: First piece of each sum, ascending; each ends where the next begins, the last at the last piece.

    Yields:
        float32 arrays of shapes (sums, size) and (sums, 1), so many at a time that their pieces take few bytes.
    """
    ends = np.append(first[1:], len(finest))
    begin = 0
    while begin < len(first):
        end = max(int(np.searchsorted(ends, first[begin] + _POOLED_AT_ONCE, side="right")), begin + 1)
        pieces = slice(first[begin], ends[end - 1])
        weighted = finest[pieces].astype(np.float32) * sizes[pieces, None]
        sums = np.add.reduceat(weighted, first[begin:end] - first[begin])
        yield sums, np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        begin = end


def unit_sums(finest: np.ndarray, sizes: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The sums of `_sums` scaled to length 1: float16 array of shape (sums, size)."""
    pooled, begin = np.empty((len(first), finest.shape[1]), np.float16), 0
    for sums, lengths in _sums(finest, sizes, first):
        pooled[begin : begin + len(sums)] = sums / lengths
        begin += len(sums)
    return pooled


def pool_bucket(documents: str, spans: str, finer: str, level: int, out: str) -> int:
    """Write what divides the weighted sums of one bucket, for vectors that are made when needed.

    Args:
        documents: Parquet file of the documents.
        spans: Parquet file of their level-1 spans.
        finer: `.npy` file of the level-1 vectors.
        level: The level to make.
        out: `.npy` file to write: float32 of shape (chunks of the level,).

    Returns:
        Number of chunks.
    """
    layout = bucket_layout(Path(documents), Path(spans))
    first, _ = layout.covered(np.arange(layout.count(level)), level)
    lengths_of = [lengths[:, 0] for _, lengths in _sums(np.load(finer, mmap_mode="r"), piece_sizes(layout), first)]
    save_array(Path(out), np.concatenate([np.zeros(0, np.float32), *lengths_of]))
    return len(first)


@dataclass(frozen=True)
class VectorBucket:
    """Where the vectors of a bucket's chunks of a level are.

    Attributes:
        documents: Parquet file of the documents.
        spans: Parquet file of their level-1 spans.
        vectors: `.npy` file of the vectors, or of those of level 1.
        pooled: The level to pool from level 1; None if the file holds the vectors themselves.
    """

    documents: str
    spans: str
    vectors: str
    pooled: int | None = None

    def open(self) -> np.ndarray:
        """The vectors, float16 of shape (chunks, size)."""
        vectors: np.ndarray = np.load(self.vectors, mmap_mode="r")
        if self.pooled is None:
            return vectors
        return pool(vectors, bucket_layout(Path(self.documents), Path(self.spans)), self.pooled)

    @property
    def count(self) -> int:
        """Number of the vectors."""
        if self.pooled is None:
            return len(np.load(self.vectors, mmap_mode="r"))
        return bucket_layout(Path(self.documents), Path(self.spans)).count(self.pooled)


def vector_keys(level: int) -> tuple[str, ...]:
    """Keys of the assets that vectors of a level are read from, besides `documents` and `chunks/level_1`."""
    return tuple(dict.fromkeys(("embeddings/level_1", f"embeddings/level_{level}")))


def vector_buckets(read: Callable[[str], Artefact], level: int) -> list[VectorBucket]:
    """The buckets of a corpus, in order.

    Args:
        read: Reads an asset of the corpus.
        level: The level.
    """
    documents, spans, vectors = (read(key) for key in ("documents", "chunks/level_1", "embeddings/level_1"))
    return [
        VectorBucket(
            str(documents.path(name)),
            str(spans.path(name)),
            str(vectors.path(name.replace(".parquet", ".npy"))),
            None if level == 1 else level,
        )
        for name in documents.names("bucket")
    ]


class VectorTable:
    """Vectors of level 1, mapped from the files of their buckets, or in memory if they are few.

    Args:
        paths: `.npy` files of the buckets, in order.

    Attributes:
        counts: Vectors of each file.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        # Copied on write, which never happens: torch warns of read-only arrays.
        self._parts = [np.asarray(np.load(path, mmap_mode="c")) for path in paths]
        self.counts = [len(part) for part in self._parts]

    def __len__(self) -> int:
        return sum(self.counts)

    def __iter__(self) -> Iterator[np.ndarray]:
        return chain.from_iterable(self._parts)

    @property
    def size(self) -> int:
        """Entries of a vector."""
        return int(self._parts[0].shape[1])

    @cached_property
    def _blocks(self) -> tuple[list[np.ndarray], np.ndarray]:
        """The vectors in few arrays, and the first of each: a question reads some of most files."""
        small = sum(part.nbytes for part in self._parts) <= _MEMORY_BYTES
        blocks = [np.concatenate(self._parts)] if small and len(self._parts) > 1 else self._parts
        return blocks, np.concatenate([[0], np.cumsum([len(block) for block in blocks])]).astype(np.int64)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of these chunks, float16 of shape (len(rows), size)."""
        blocks, offsets = self._blocks
        if len(blocks) == 1:
            return blocks[0][rows]
        part = np.searchsorted(offsets, rows, side="right") - 1
        # Most ask for them in order: then those of a file stand together.
        order = None if (part[1:] >= part[:-1]).all() else np.argsort(part, kind="stable")
        sorted_rows, part = (rows, part) if order is None else (rows[order], part[order])
        result = np.empty((len(rows), self.size), np.float16)
        starts = np.flatnonzero(np.diff(part, prepend=-1))
        for first, last in pairwise([*starts.tolist(), len(rows)]):
            number = int(part[first])
            vectors = blocks[number][sorted_rows[first:last] - offsets[number]]
            result[slice(first, last) if order is None else order[first:last]] = vectors
        return result

    def float_rows(self, rows: np.ndarray) -> np.ndarray:
        """As `rows`, float32."""
        return as_float32(self.rows(rows), np.empty((len(rows), self.size), np.float32))

    def float_runs(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The vectors of runs of chunks, each of one document, float32: read as they lie, not one by one."""
        blocks, offsets = self._blocks
        result = np.empty((int((last - first).sum()), self.size), np.float32)
        part = np.searchsorted(offsets, first, side="right") - 1
        begins, at = first - offsets[part], 0
        for number, begin, count in zip(part.tolist(), begins.tolist(), (last - first).tolist(), strict=True):
            as_float32(blocks[number][begin : begin + count], result[at : at + count])
            at += count
        return result


def as_float32(vectors: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Vectors as float32, written to an array of their shape."""
    # Twenty times as fast as numpy, and as torch, which takes a second to import.
    import numkong

    numkong.astype(vectors, "float32", out=to)
    return to
