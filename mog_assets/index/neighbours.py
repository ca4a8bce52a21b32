"""Open what leads to near vectors: rounded ones of small shards, graphs of large ones; see `vectors.Neighbours`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.index.vectors import MEMORY_BYTES, Neighbours, round_vectors
from mog_assets.resources.errors import MogError

# Numbers of a shortened vector, and of how many vectors its directions are. Of longer vectors than the last these take
# too long: 30 s of 4,096 numbers, each time that something changed.
_SHORT, _SAMPLE, _LONGEST = 192, 4096, 1024
# Vectors that are shortened at a time.
_BLOCK = 1 << 13
# Vectors that are looked at in a graph for each that is searched for.
_SEARCHING = 128


def open_neighbours(path: Path, count: int) -> Neighbours:
    """Map a file of `encoding.write_graph` or `write_rounded`.

    Raises:
        MogError: the file cannot be read, or is not of so many vectors.
    """
    if path.suffix == ".usearch":
        return Neighbours(count, graph=_opened(path, count))
    return Neighbours(count, rounded=_mapped(path, count))


def together(shards: Sequence[Neighbours]) -> list[Neighbours]:
    """Return as few that are of the same vectors: those of small shards are copied, to be compared at once."""
    rounded = [shard.rounded for shard in shards if shard.rounded is not None]
    if len(shards) < 2 or len(rounded) < len(shards) or sum(rows.nbytes for rows, _ in rounded) > MEMORY_BYTES:
        return list(shards)
    rows, scales = (np.concatenate(parts) for parts in zip(*rounded, strict=True))
    return [Neighbours(len(rows), rounded=(rows, scales))]


def shorten(shard: Neighbours) -> None:
    """Compare few numbers of each rounded vector from now on: takes a while, and with half is three times as fast.

    They are those in the directions in which the vectors differ most. Among six times as many, .99995 of the
    nearest 100 are found (51,013 pieces of medquad, 400 questions); passages of 500 questions stay the same.
    """
    if shard.rounded is None or min(shard.rounded[0].shape) <= _SHORT or shard.rounded[0].shape[1] > _LONGEST:
        return
    import numkong

    rows, scales = shard.rounded
    sample = rows[:: -(-len(rows) // _SAMPLE)].astype(np.float32)
    axes = np.ascontiguousarray(np.linalg.eigh(sample.T @ sample)[1][:, : -_SHORT - 1 : -1])
    short, factors = np.empty((len(rows), _SHORT), np.int8), np.empty(len(rows), np.float32)
    for first in range(0, len(rows), _BLOCK):
        part = slice(first, first + _BLOCK)
        short[part], factors[part] = round_vectors(rows[part].astype(np.float32) @ axes)
    shard.shortened, shard.rounded = (axes, numkong.dots_pack(short), factors * scales), None


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
