"""Vectors of a level, which the papers compare with questions as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import piece_sizes, unit_sums
from mog_assets.index.vectors import as_float32
from mog_assets.resources.arrays import ranges
from mog_assets.resources.lazy import remembered
from mog_assets.text.chunks import Layout

# Files of vectors that are smaller are joined in memory, up to this many bytes: a product with each costs a call.
_BLOCK_BYTES = 64 << 20
# Bytes of joined or pooled vectors that a table keeps; the others are made again for each product.
_KEPT_BYTES = 1 << 30
# Rows of a block that are unpacked at a time to be multiplied: they stay in the processor's cache.
_UNPACKED_AT_ONCE = 1 << 10


class LevelVectors:
    """Vectors of one level, mapped from the files of its buckets, or pooled from those of level 1 when needed.

    Args:
        paths: `.npy` files of the buckets, in order; of level 1 if they are pooled.
        layout: Of all chunks in these files; None if the files hold the vectors themselves.
        level: The level to pool.

    Attributes:
        parts: The array of each file.
    """

    def __init__(self, paths: Sequence[Path], layout: Layout | None = None, level: int = 1) -> None:
        # Copied on write, which never happens: torch warns of read-only arrays.
        self.parts = [np.asarray(np.load(path, mmap_mode="c")) for path in paths]
        self._begins = np.concatenate([[0], np.cumsum([len(p) for p in self.parts])]).astype(np.int64)
        self._first: np.ndarray | None = None
        if layout is not None:
            self._first, _ = layout.covered(np.arange(layout.count(level)), level)
            self._sizes = piece_sizes(layout)
        # A file ends where a document ends, so no chunk is of two files.
        self._offsets = self._begins if self._first is None else np.searchsorted(self._first, self._begins)
        self._blocks: dict[int, np.ndarray] = {}

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
        """Return the vectors of a file."""
        if self._first is None:
            return self.parts[number]
        pieces = slice(self._begins[number], self._begins[number + 1])
        first = self._first[self._offsets[number] : self._offsets[number + 1]]
        return unit_sums(self.parts[number], self._sizes[pieces], first - pieces.start)

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
        size = sum(block.nbytes for block in self._blocks.values())
        for number, files in enumerate(self._joined):
            block = self._blocks.get(number)
            if block is None:
                parts = [self._part(file) for file in files]
                block = np.concatenate(parts) if len(parts) > 1 else parts[0]
                mapped = self._first is None and len(parts) == 1
                if not mapped and size + block.nbytes <= _KEPT_BYTES:
                    self._blocks[number] = block
                    size += block.nbytes
            yield block

    def product_blocks(self, vectors: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Return dot products with some vectors, a block at a time: the number of its first vector, and the products.

        Args:
            vectors: Shape (n, size).
        """
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
        """Return the vectors of these chunks, float16 of shape (len(rows), size)."""
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

    def _rows(self, number: int, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of some chunks of one file."""
        if self._first is None:
            return self.parts[number][rows - self._offsets[number]]
        first = self._first[rows]
        ends = np.append(self._first, self._begins[-1])[rows + 1]
        pieces, starts = ranges(first, ends), np.cumsum(ends - first) - (ends - first)
        return unit_sums(self.parts[number][pieces - self._begins[number]], self._sizes[pieces], starts)


def _multiplied(vectors: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Return products of float32 vectors with a block: float32 array of shape (vectors, rows of the block)."""
    if block.dtype == np.float32 or len(block) <= _UNPACKED_AT_ONCE:
        return np.matmul(vectors, block.astype(np.float32, copy=False).T)
    products = np.empty((len(vectors), len(block)), np.float32)
    rows = np.empty((_UNPACKED_AT_ONCE, block.shape[1]), np.float32)
    for first in range(0, len(block), _UNPACKED_AT_ONCE):
        part = block[first : first + _UNPACKED_AT_ONCE]
        np.matmul(vectors, as_float32(part, rows[: len(part)]).T, out=products[:, first : first + len(part)])
    return products


@remembered
def level_vectors(corpora: Corpora, level: int) -> LevelVectors:
    """Open the vectors of a level."""
    return LevelVectors(corpora.bucket_files("embeddings/level_1"), None if level == 1 else corpora.layout, level)
