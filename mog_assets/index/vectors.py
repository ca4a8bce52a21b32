"""Vectors of level 1 as questions read them: exact ones, and rounded ones or graphs that lead to the near ones.

Vectors are rounded to a byte a number, half of their bytes on disk: a product of a question with 50,000 of them takes a
millisecond on one core. Of a large shard a graph does not even look at most. What either finds is compared again with
the vectors themselves.

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
from mog_assets.resources.errors import MogError
from mog_assets.resources.lazy import cached_property

# Vectors that are held in memory, not mapped, up to this many bytes.
_MEMORY_BYTES = 64 << 20
# Of so many times as many by shortened vectors, and of so many by a graph, the nearest are chosen by the vectors.
OVERSAMPLING, OF_GRAPH = 6, 3
# Numbers of a shortened vector, and of how many vectors its directions are. Of longer vectors than the last these take
# too long: 30 s of 4,096 numbers, each time that something changed.
_SHORT, _SAMPLE, _LONGEST = 192, 4096, 1024
# Vectors that are shortened at a time.
_BLOCK = 1 << 13
# Vectors that are looked at in a graph for each that is searched for.
_SEARCHING = 128
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
        small = sum(part.nbytes for part in self._parts) <= _MEMORY_BYTES
        blocks = [np.concatenate(self._parts)] if small and len(self._parts) > 1 else self._parts
        return blocks, np.concatenate([[0], np.cumsum([len(block) for block in blocks])]).astype(np.int64)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of these chunks, float16 of shape (len(rows), size)."""
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
        """As `rows`, float32."""
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
    """Vectors as float32, written to an array of their shape."""
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


class Neighbours:
    """The vectors of level 1 of a shard, or of several.

    Args:
        graph: Leads to the nearest, if there is one.
        rounded: Else the rounded vectors and their scales.
        count: How many there are.
    """

    def __init__(self, graph: Any, rounded: tuple[np.ndarray, np.ndarray] | None, count: int) -> None:
        self.count, self._graph, self._rounded = count, graph, rounded
        self._short: tuple[np.ndarray, Any, np.ndarray] | None = None

    @classmethod
    def open(cls, path: Path, count: int) -> Neighbours:
        """Map a file of `write_graph` or `write_rounded`.

        Raises:
            MogError: the file cannot be read, or is not of so many vectors.
        """
        if path.suffix == ".usearch":
            return cls(_opened(path, count), None, count)
        return cls(None, _mapped(path, count), count)

    @classmethod
    def together(cls, shards: Sequence[Neighbours]) -> list[Neighbours]:
        """Return as few that are of the same vectors: those of small shards are copied, to be compared at once."""
        rounded = [shard._rounded for shard in shards if shard._rounded is not None]
        if len(shards) < 2 or len(rounded) < len(shards) or sum(rows.nbytes for rows, _ in rounded) > _MEMORY_BYTES:
            return list(shards)
        rows, scales = (np.concatenate(parts) for parts in zip(*rounded, strict=True))
        return [cls(None, (rows, scales), len(rows))]

    def shorten(self) -> None:
        """Compare few numbers of each rounded vector from now on: takes a while, and with half is three times as fast.

        They are those in the directions in which the vectors differ most. Among six times as many, .99995 of the
        nearest 100 are found (51,013 pieces of medquad, 400 questions); passages of 500 questions stay the same.
        """
        if self._rounded is None or min(self._rounded[0].shape) <= _SHORT or self._rounded[0].shape[1] > _LONGEST:
            return
        import numkong

        rows, scales = self._rounded
        sample = rows[:: -(-len(rows) // _SAMPLE)].astype(np.float32)
        axes = np.ascontiguousarray(np.linalg.eigh(sample.T @ sample)[1][:, : -_SHORT - 1 : -1])
        short, factors = np.empty((len(rows), _SHORT), np.int8), np.empty(len(rows), np.float32)
        for first in range(0, len(rows), _BLOCK):
            part = slice(first, first + _BLOCK)
            short[part], factors[part] = round_vectors(rows[part].astype(np.float32) @ axes)
        self._short, self._rounded = (axes, numkong.dots_pack(short), factors * scales), None

    def compare(self, query: Near, allowed: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray]:
        """Return about how near pieces are, where nearly all of the nearest ones are among them.

        Args:
            query: The question.
            allowed: Pieces that may be found, bool of shape (count,); None if all.

        Returns:
            The pieces that are compared, ascending, None if all are; and their products with the question, float32.
            Where all that are allowed are to be compared exactly, products are infinite.
        """
        if self._graph is None or not self.count:
            products = self._products(query)
            return (None, products) if allowed is None else (np.flatnonzero(allowed), products[allowed])
        left = self.count if allowed is None else int(np.count_nonzero(allowed))
        if allowed is None or left > FEW:
            # So many more are asked for that about as many are left.
            wanted = min(OF_GRAPH * -(-query.k * self.count // left), self.count)
            matches = self._graph.search(query.vector, wanted, threads=1)
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

        if self._short is not None:
            axes, packed, scales = self._short
            rounded, scale = round_vectors((query.vector @ axes)[None])
            compared: Any = numkong.dots_packed(rounded, packed)
        else:
            assert self._rounded is not None
            (rows, scales), (rounded, scale) = self._rounded, query.rounded
            compared = numkong.cdist(rounded, rows, metric="dot")
        return np.multiply(np.asarray(compared)[0], scales * scale[0], dtype=np.float32)


def _mapped(path: Path, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounded vectors of a shard and their scales."""
    try:
        rows = np.load(path, mmap_mode="r")
        if rows.dtype != np.int8 or rows.ndim != 2 or len(rows) != count:
            raise ValueError(f"it is {rows.dtype} of shape {rows.shape}")
    except (ValueError, OSError, EOFError) as error:
        raise MogError(
            f"{path.name} of neighbours: expected {count:,} rounded vectors, got another file ({error}): `mog run`"
        ) from error
    return rows[:, :-4], np.ascontiguousarray(rows[:, -4:]).view(np.float32)[:, 0]


def _opened(path: Path, count: int) -> Any:
    from usearch.index import Index

    try:
        graph = Index.restore(str(path), view=True, expansion_search=_SEARCHING, enable_key_lookups=False)
        why = "it is no graph" if graph is None else f"it has {len(graph):,} vectors"
    # It raises plain exceptions of several kinds.
    except Exception as error:
        graph, why = None, str(error)
    if graph is None or len(graph) != count:
        raise MogError(
            f"{path.name} of neighbours: expected a graph of {count:,} vectors, got another ({why}): `mog run`"
        )
    return graph


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
