"""Find the pieces of a shard that are near a question: by a product with all, or by a graph that leads to the nearest.

Vectors are rounded to a byte a number, a quarter of their bytes in memory: that of a question with 50,000 of them takes
1.5 ms on one core (6 ms as float32). Of a large shard a graph does not even look at most. What either finds is compared
again with the vectors themselves.

Reference: Malkov and Yashunin 2018 (HNSW), as in `usearch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources.arrays import save_array
from mog_assets.resources.errors import MogError
from mog_assets.resources.lazy import cached_property

# Of three times as many by rounded vectors, the nearest are chosen by the vectors themselves.
OVERSAMPLING = 3
# Edges of a vector, and vectors that are looked at for each that is added or searched for.
_EDGES, _ADDING, _SEARCHING = 16, 128, 128
# Rounded vectors of several shards that are held in memory, up to this many bytes.
_MEMORY_BYTES = 64 << 20
# Pieces that are left by a filter and compared as a whole in the time that a graph takes to lead to the nearest.
FEW = 16_000


def write_graph(vectors: Sequence[str], out: str) -> int:
    """Write the graph of a shard.

    Args:
        vectors: `.npy` files of its buckets, at least one, in order.
        out: File to write.

    Returns:
        Number of vectors.
    """
    from usearch.index import Index

    size, count = np.load(vectors[0], mmap_mode="r").shape[1], 0
    graph = Index(ndim=size, metric="ip", dtype="i8", connectivity=_EDGES, expansion_add=_ADDING)
    for path in vectors:
        rows = np.load(path)
        # One thread: the order in which vectors are added decides which edges there are.
        if len(rows):
            graph.add(np.arange(count, count + len(rows)), rows.astype(np.float32), threads=1)
        count += len(rows)
    graph.save(out)
    return count


def write_rounded(vectors: Sequence[str], out: str) -> int:
    """Write the vectors of a shard with a byte for each number, and after them the scale of each, as 4 bytes.

    Args:
        vectors: `.npy` files of its buckets, at least one, in order.
        out: `.npy` file to write: int8 of shape (pieces, size + 4).

    Returns:
        Number of vectors.
    """
    parts = []
    for path in vectors:
        rounded, scales = _rounded(np.load(path).astype(np.float32))
        parts.append(np.concatenate([rounded, scales[:, None].view(np.int8)], axis=1))
    rows = np.concatenate(parts)
    save_array(Path(out), rows)
    return len(rows)


def _rounded(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        """See `_rounded`."""
        return _rounded(self.vector[None])

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

    def compare(self, query: Near, allowed: np.ndarray | None, products: np.ndarray) -> None:
        """Write about how near pieces are, where nearly all of the nearest ones are among them.

        Args:
            query: The question.
            allowed: Pieces that may be found, bool of shape (count,); None if all.
            products: With the question, float32 of shape (count,), −inf where a piece is not compared: changed. Where
                all that are allowed are to be compared exactly, it is infinite.
        """
        if not self.count:
            return
        if self._rounded is not None:
            import numkong

            (rows, scales), (rounded, scale) = self._rounded, query.rounded
            np.multiply(np.asarray(numkong.cdist(rounded, rows, metric="dot"))[0], scales * scale[0], out=products)
            if allowed is not None:
                products[~allowed] = -np.inf
            return
        assert self._graph is not None
        left = self.count if allowed is None else int(np.count_nonzero(allowed))
        if allowed is None or left > FEW:
            # So many more are asked for that about as many are left.
            wanted = min(OVERSAMPLING * -(-query.k * self.count // left), self.count)
            matches = self._graph.search(query.vector, wanted, threads=1)
            pieces, distances = matches.keys.astype(np.int64), matches.distances
            if allowed is not None:
                pieces, distances = pieces[allowed[pieces]], distances[allowed[pieces]]
            if len(pieces) >= min(query.k, left):
                products[pieces] = (1 - distances) * query.scale
                return
        products[slice(None) if allowed is None else allowed] = np.inf


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
