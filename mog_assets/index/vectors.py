"""Vectors of level 1 as questions read them: exact ones, and rounded ones or graphs that lead to the near ones.

Vectors are rounded to a byte a number, half of their bytes on disk: a product of a question with 50,000 of them takes a
millisecond on one core. Of a large shard a graph does not even look at most. What either finds is compared again with
the vectors themselves. `neighbours` opens what leads to the near ones.

Reference: Malkov and Yashunin 2018 (HNSW), as in `usearch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources.arrays import greatest_of
from mog_assets.resources.lazy import cached_property

# Vectors that are held in memory, not mapped, up to this many bytes.
MEMORY_BYTES = 64 << 20
# Of so many times as many by shortened vectors, and of so many by a graph, the nearest are chosen by the vectors.
OVERSAMPLING, OF_GRAPH = 6, 3
# Vectors that are read at a time.
_BLOCK = 1 << 13
# Pieces that are left by a filter and compared as a whole in the time that a graph takes to lead to the nearest.
FEW = 16_000


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
        small = sum(part.nbytes for part in self._parts) <= MEMORY_BYTES
        blocks = [np.concatenate(self._parts)] if small and len(self._parts) > 1 else self._parts
        return blocks, np.concatenate([[0], np.cumsum([len(block) for block in blocks])]).astype(np.int64)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of these chunks, float16 of shape (len(rows), size)."""
        blocks, offsets = self._blocks
        if len(blocks) == 1:
            return blocks[0].take(rows, axis=0)
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
        """Do as `rows`, float32."""
        return as_float32(self.rows(rows), np.empty((len(rows), self.size), np.float32))

    def products(self, rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """Return the products of some chunks with a vector, which is rounded to float16: float32 of shape (rows,)."""
        import numkong

        products, rounded = np.empty(len(rows), np.float32), vector.astype(np.float16)[None]
        # A filter may leave hundreds of thousands.
        for first in range(0, len(rows), _BLOCK):
            part = slice(first, first + _BLOCK)
            products[part] = np.asarray(numkong.cdist(rounded, self.rows(rows[part]), metric="dot"))[0]
        return products


def as_float32(vectors: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return vectors as float32, written to an array of their shape."""
    # Twenty times as fast as numpy, and as torch, which takes a second to import.
    import numkong

    numkong.astype(vectors, "float32", out=to)
    return to


def round_vectors(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors as int8, and what each is multiplied by: float32 of shape (vectors,)."""
    scales = (np.abs(vectors).max(axis=1, initial=0) / 127).astype(np.float32)
    return np.rint(vectors / np.maximum(scales, 1e-12)[:, None]).astype(np.int8), scales


@dataclass(frozen=True)
class Near:
    """A question whose nearest pieces are wanted.

    Attributes:
        vector: float32 of shape (size,).
        k: How many are wanted.
    """

    vector: np.ndarray
    k: int

    @cached_property
    def rounded(self) -> tuple[np.ndarray, np.ndarray]:
        """See `round_vectors`."""
        return round_vectors(self.vector[None])

    @cached_property
    def scale(self) -> float:
        """Scale of the products of graphs, whose vectors have length 1, times 127, and numbers cut off."""
        length = max(float(np.linalg.norm(self.vector)), 1e-12)
        cut = np.trunc(127 * self.vector / length)
        return length / max(float(cut @ cut), 1.0)


@dataclass(eq=False)
class Neighbours:
    """The vectors of level 1 of a shard, or of several.

    Attributes:
        count: How many there are.
        graph: Leads to the nearest, if there is one.
        rounded: Else the rounded vectors and their scales.
        shortened: What stands for these once it is made: the directions of its numbers, packed vectors, and scales.
    """

    count: int
    graph: Any = None
    rounded: tuple[np.ndarray, np.ndarray] | None = None
    shortened: tuple[np.ndarray, Any, np.ndarray] | None = None

    def compare(self, query: Near, allowed: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray]:
        """Return about how near pieces are, where nearly all of the nearest ones are among them.

        Args:
            query: The question.
            allowed: Pieces that may be found, bool of shape (count,); None if all.

        Returns:
            The pieces that are compared, ascending, None if all are; and their products with the question, float32.
            Where all that are allowed are to be compared exactly, products are infinite.
        """
        if self.graph is None or not self.count:
            products = self._products(query)
            return (None, products) if allowed is None else (np.flatnonzero(allowed), products[allowed])
        left = self.count if allowed is None else int(np.count_nonzero(allowed))
        if allowed is None or left > FEW:
            # So many more are asked for that about as many are left.
            wanted = min(OF_GRAPH * -(-query.k * self.count // left), self.count)
            matches = self.graph.search(query.vector, wanted, threads=1)
            pieces, distances = matches.keys.astype(np.int64), matches.distances
            if allowed is not None:
                pieces, distances = pieces[allowed[pieces]], distances[allowed[pieces]]
            if len(pieces) >= min(query.k, left):
                order = np.argsort(pieces)
                return pieces[order], ((1 - distances[order]) * query.scale).astype(np.float32)
        return None if allowed is None else np.flatnonzero(allowed), np.full(left, np.inf, np.float32)

    def _products(self, query: Near) -> np.ndarray:
        """Return the products of all rounded vectors with the question: float32 of shape (count,)."""
        if not self.count:
            return np.zeros(0, np.float32)
        import numkong

        # Another thread may put the second in place of the first.
        every, shortened = self.rounded, self.shortened
        if shortened is not None:
            axes, packed, scales = shortened
            rounded, scale = round_vectors((query.vector @ axes)[None])
            compared: Any = numkong.dots_packed(rounded, packed)
        else:
            assert every is not None
            (rows, scales), (rounded, scale) = every, query.rounded
            compared = numkong.cdist(rounded, rows, metric="dot")
        return np.multiply(np.asarray(compared)[0], scales * scale[0], dtype=np.float32)


def near(shards: Sequence[Neighbours], vector: np.ndarray, k: int, allowed: np.ndarray | None) -> np.ndarray:
    """Return pieces near a question, the k nearest among them, ascending.

    Args:
        shards: All pieces, in order.
        vector: Of the question.
        k: How many of the nearest are wanted.
        allowed: Pieces that may be found, bool of shape (pieces,); None if all.
    """
    query, first = Near(vector, k), 0
    pieces, products = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for shard in shards:
        some, compared = shard.compare(query, None if allowed is None else allowed[first : first + shard.count])
        best = _nearest(compared, k)
        pieces.append(first + (best if some is None else some[best]))
        products.append(compared[best])
        first += shard.count
    if len(shards) == 1:
        return pieces[1]
    return np.concatenate(pieces)[_nearest(np.concatenate(products), k)]


def _nearest(products: np.ndarray, k: int) -> np.ndarray:
    """Return the positions of the greatest products, ascending, and of all that are infinite."""
    # By rounded vectors the nearest are not quite the first.
    return greatest_of(products, OVERSAMPLING * k + int(np.count_nonzero(products == np.inf)))
