"""Graphs of nearest vectors: the pieces near a question, from a few thousand products instead of all.

A graph is of a shard and made of its vectors alone, one after the other by one thread: a rebuild gives the same bytes,
and an edit makes anew the graphs of the shards that it touches. It holds a byte for each number of a vector; what it
finds is compared again with the vectors themselves. A shard without a graph is compared with a question as a whole.

Reference: Malkov and Yashunin 2018 (HNSW), as in `usearch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.index.vectors import VectorTable
from mog_assets.resources.arrays import greatest
from mog_assets.resources.errors import MogError

# Vectors are rounded to a byte a number: of three times as many, the nearest are chosen by the vectors themselves.
_ASKED = 3
# Edges of a vector, and vectors that are looked at for each that is added or searched for.
_EDGES, _ADDING, _SEARCHING = 16, 128, 128
# Pieces of a shard that are compared in the time that its graph takes to lead to the nearest of them, or less.
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


class Neighbours:
    """The vectors of level 1 of a shard, with the graph that leads to them, if it has one.

    Args:
        graph: Its file, which is mapped; None without one.
        vectors: Opens the vectors, when they are all compared.
        count: How many there are.

    Raises:
        MogError: the graph cannot be read, or is not of so many vectors.
    """

    def __init__(self, graph: Path | None, vectors: Callable[[], VectorTable], count: int) -> None:
        self.count, self._open = count, vectors
        self._graph = None if graph is None else _opened(graph, count)

    @cached_property
    def _vectors(self) -> VectorTable:
        return self._open()

    def near(self, vector: np.ndarray, k: int, open_to: np.ndarray | None = None) -> np.ndarray:
        """Pieces near a question, nearly all of the k nearest among them; all of them if no graph is asked.

        Args:
            vector: Of the question, float32 of shape (size,).
            k: How many are wanted.
            open_to: Pieces that may be found, bool of shape (count,); None if all.

        Returns:
            Numbers of pieces, int64, ascending; with a graph up to `_ASKED` times k.
        """
        left = self.count if open_to is None else int(np.count_nonzero(open_to))
        if self._graph is not None and left > FEW:
            # So many more are asked for that about as many are left.
            wanted = min(_ASKED * -(-k * self.count // left), self.count)
            pieces = np.sort(self._graph.search(vector, wanted, threads=1).keys.astype(np.int64))
            pieces = pieces if open_to is None else pieces[open_to[pieces]]
            if len(pieces) >= min(k, left):
                return pieces
        if open_to is not None and left <= FEW:
            return np.flatnonzero(open_to)
        scores = self._vectors.products(vector[None])
        if open_to is None:
            return np.flatnonzero(greatest(scores, k)[0])
        return np.flatnonzero(greatest(np.where(open_to, scores, -np.inf), k)[0] & open_to)


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
