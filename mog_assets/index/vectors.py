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
from mog_assets.resources.arrays import ranges, save_array
from mog_assets.resources.store import Artefact
from mog_assets.text.chunks import Layout, chunk_text

# Files of vectors that are smaller are joined in memory, up to this many bytes: a product with each costs a call.
_BLOCK_BYTES = 64 << 20
# Bytes of joined or pooled vectors that a table keeps; the others are made again for each product.
_KEPT_BYTES = 1 << 30
# Rows of a block that are unpacked at a time to be multiplied: they stay in the processor's cache.
_UNPACKED_AT_ONCE = 1 << 10
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
    return _unit(finest, piece_sizes(layout), first)


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


def _unit(finest: np.ndarray, sizes: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The sums of `_sums` scaled to length 1: float16 array of shape (sums, size)."""
    pooled, begin = np.empty((len(first), finest.shape[1]), np.float16), 0
    for sums, lengths in _sums(finest, sizes, first):
        pooled[begin : begin + len(sums)] = sums / lengths
        begin += len(sums)
    return pooled


def pool_bucket(documents: str, spans: str, finer: str, level: int, out: str) -> int:
    """Write what divides the weighted sums of one bucket, see `Pooling.lengths`; the vectors are made when needed.

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
    def of(cls, layout: Layout, level: int, lengths: Sequence[Path]) -> Pooling:
        """That of a level.

        Args:
            layout: Of all chunks.
            level: The level.
            lengths: Files of `pool_bucket`, in order.
        """
        first, _ = layout.covered(np.arange(layout.count(level)), level)
        sums = np.concatenate([np.zeros(0, np.float32), *(np.load(path) for path in lengths)])
        return cls(first, piece_sizes(layout), sums)

    def within(self, chunks: np.ndarray, first: np.ndarray, pieces: np.ndarray) -> Pooling:
        """That of some chunks, whose pieces are numbered anew.

        Args:
            chunks: Numbers of the chunks, ascending.
            first: First piece of each, among `pieces`.
            pieces: Their pieces, ascending.
        """
        return Pooling(first, self.sizes[pieces], self.lengths[chunks])

    def pooled(self, products: np.ndarray) -> np.ndarray:
        """Products with the chunks of the level, from those with all pieces: of shape (n, chunks)."""
        if not len(self.first):
            return products
        return np.add.reduceat(products * self.sizes, self.first, axis=1) / self.lengths


class VectorTable:
    """Vectors of one level, mapped from the files of its buckets, or pooled from those of level 1 when needed.

    Args:
        paths: `.npy` files of the buckets, in order; of level 1 if they are pooled.
        unpacked: Keep `blocks` in float32, in memory, if they fit: twice the bytes, and a product with one question
            takes 6 ms instead of 10 for 50,000 vectors (benchmarks/serving.py), with 32 questions no more than 13.
        layout: Of all chunks in these files; None if the files hold the vectors themselves.
        level: The level to pool.

    Attributes:
        parts: The array of each file.
    """

    def __init__(
        self, paths: Sequence[Path], unpacked: bool = False, layout: Layout | None = None, level: int = 1
    ) -> None:
        # Copied on write, which never happens: torch warns of read-only arrays.
        self.parts = [np.asarray(np.load(path, mmap_mode="c")) for path in paths]
        self.unpacked = unpacked and 2 * sum(part.nbytes for part in self.parts) <= _KEPT_BYTES
        self._begins = np.concatenate([[0], np.cumsum([len(p) for p in self.parts])]).astype(np.int64)
        self._first: np.ndarray | None = None
        if layout is not None:
            self._first, _ = layout.covered(np.arange(layout.count(level)), level)
            self._sizes = piece_sizes(layout)
        # A file ends where a document ends, so no chunk is of two files.
        self._offsets = self._begins if self._first is None else np.searchsorted(self._first, self._begins)
        self._kept: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def __iter__(self) -> Iterator[np.ndarray]:
        # Rows of a memory-mapped array are slow to create.
        return chain.from_iterable(np.asarray(self._part(number)) for number in range(len(self.parts)))

    @property
    def size(self) -> int:
        """Entries of a vector."""
        return int(self.parts[0].shape[1])

    def _part(self, number: int) -> np.ndarray:
        """The vectors of a file."""
        if self._first is None:
            return self.parts[number]
        pieces = slice(self._begins[number], self._begins[number + 1])
        first = self._first[self._offsets[number] : self._offsets[number + 1]]
        return _unit(self.parts[number], self._sizes[pieces], first - pieces.start)

    @cached_property
    def _joined(self) -> list[list[int]]:
        """The files of each block: files are joined unless they are large."""
        sizes = np.diff(self._offsets) * self.size * 2
        joined: list[list[int]] = [[]]
        for number, size in enumerate(sizes.tolist()):
            if joined[-1] and sum(sizes[joined[-1]]) + size > _BLOCK_BYTES:
                joined.append([])
            joined[-1].append(number)
        return joined

    @property
    def blocks(self) -> Iterator[np.ndarray]:
        """The vectors in few arrays; those that are not in a file as they are stay in memory, up to a limit."""
        size = sum(block.nbytes for block in self._kept.values())
        for number, files in enumerate(self._joined):
            block = self._kept.get(number)
            if block is None:
                parts = [self._part(file) for file in files]
                block = np.concatenate(parts) if len(parts) > 1 else parts[0]
                mapped = self._first is None and len(parts) == 1
                if self.unpacked:
                    block, mapped = block.astype(np.float32), False
                if self.unpacked or (not mapped and size + block.nbytes <= _KEPT_BYTES):
                    self._kept[number] = block
                    size += block.nbytes
            yield block

    def products(self, vectors: np.ndarray) -> np.ndarray:
        """Dot products of all vectors with some others.

        Args:
            vectors: Shape (n, size).

        Returns:
            float32 array of shape (n, vectors of the table).
        """
        products_of_all = np.empty((len(vectors), len(self)), np.float32)
        for first, products in self.product_blocks(vectors):
            products_of_all[:, first : first + products.shape[1]] = products
        return products_of_all

    def product_blocks(self, vectors: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """As `products`, a block of vectors at a time: the first vector of each, and the products with them."""
        first, queries = 0, np.asarray(vectors, np.float32)
        for block in self.blocks:
            if len(block):
                yield first, _multiplied(queries, block)
            first += len(block)

    @property
    def widest(self) -> int:
        """Vectors of the largest block."""
        return int(max(np.diff(self._offsets)[files].sum() for files in self._joined))

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of these chunks, float16 of shape (len(rows), size)."""
        part = np.searchsorted(self._offsets, rows, side="right") - 1
        # Most ask for them in order: then those of a file stand together.
        order = None if (part[1:] >= part[:-1]).all() else np.argsort(part, kind="stable")
        sorted_rows, part = (rows, part) if order is None else (rows[order], part[order])
        result = np.empty((len(rows), self.size), np.float16)
        starts = np.flatnonzero(np.diff(part, prepend=-1))
        for first, last in pairwise([*starts.tolist(), len(rows)]):
            vectors = self._rows(int(part[first]), sorted_rows[first:last])
            result[slice(first, last) if order is None else order[first:last]] = vectors
        return result

    def float_rows(self, rows: np.ndarray) -> np.ndarray:
        """As `rows`, float32."""
        return as_float32(self.rows(rows), np.empty((len(rows), self.size), np.float32))

    def _rows(self, number: int, rows: np.ndarray) -> np.ndarray:
        """The vectors of some chunks of one file."""
        if self._first is None:
            return self.parts[number][rows - self._offsets[number]]
        first = self._first[rows]
        ends = np.append(self._first, self._begins[-1])[rows + 1]
        pieces, starts = ranges(first, ends), np.cumsum(ends - first) - (ends - first)
        return _unit(self.parts[number][pieces - self._begins[number]], self._sizes[pieces], starts)


def _multiplied(vectors: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Products of float32 vectors with a block: float32 array of shape (vectors, rows of the block)."""
    if block.dtype == np.float32 or len(block) <= _UNPACKED_AT_ONCE:
        return np.matmul(vectors, block.astype(np.float32, copy=False).T)
    products = np.empty((len(vectors), len(block)), np.float32)
    rows = np.empty((_UNPACKED_AT_ONCE, block.shape[1]), np.float32)
    for first in range(0, len(block), _UNPACKED_AT_ONCE):
        part = block[first : first + _UNPACKED_AT_ONCE]
        np.matmul(vectors, as_float32(part, rows[: len(part)]).T, out=products[:, first : first + len(part)])
    return products


def as_float32(vectors: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Vectors as float32, written to an array of their shape."""
    # Twenty times as fast as numpy, and as torch, which takes a second to import.
    import numkong

    numkong.astype(vectors, "float32", out=to)
    return to
