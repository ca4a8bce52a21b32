"""Graphs of nearest vectors: the pieces near a question, from a few thousand products instead of all.

A graph is of a shard and made of its vectors alone, one after the other by one thread: a rebuild gives the same bytes,
and an edit makes anew the graphs of the shards that it touches. It holds a byte for each number of a vector; what it
finds is compared again with the vectors themselves.

Reference: Malkov and Yashunin 2018 (HNSW), as in `usearch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources.errors import MogError

# Vectors are rounded to a byte a number: of three times as many, the nearest are chosen by the vectors themselves.
_ASKED = 3
# Edges of a vector, and vectors that are looked at for each that is added or searched for.
_EDGES, _ADDING, _SEARCHING = 16, 128, 128


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
    """The graphs of some corpora, mapped from their files.

    Args:
        paths: The files, in the order of the shards of the corpora.

    Raises:
        MogError: one cannot be read.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._graphs = [_opened(path) for path in paths]
        self._firsts = np.cumsum([0, *(len(graph) for graph in self._graphs)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def near(self, vector: np.ndarray, k: int) -> np.ndarray:
        """Pieces near a question: `_ASKED` times k of each shard, nearly all of the k nearest among them.

        Args:
            vector: Of the question, shape (size,).
            k: How many are wanted.

        Returns:
            Numbers of pieces, int64, ascending.
        """
        parts, row = [np.zeros(0, np.int64)], np.asarray(vector, np.float32)
        for graph, first in zip(self._graphs, self._firsts[:-1].tolist(), strict=True):
            if len(graph):
                hits = graph.search(row, min(_ASKED * k, len(graph)), threads=1)
                parts.append(hits.keys.astype(np.int64) + first)
        return np.sort(np.concatenate(parts))


def _opened(path: Path) -> Any:
    from usearch.index import Index

    try:
        graph = Index.restore(str(path), view=True, expansion_search=_SEARCHING, enable_key_lookups=False)
    # It raises plain exceptions of several kinds.
    except Exception as error:
        graph, why = None, str(error)
    else:
        why = "it is no graph"
    if graph is None:
        raise MogError(f"{path.name} of neighbours: expected a graph of vectors, got a damaged file ({why}): `mog run`")
    return graph
