"""Neighbourhoods: the nodes within some hops of a node, the chunks of MoGG.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.3: granularity is a hopping range; a chunk is a centre
node with all nodes within so many hops, each once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.papers.compiled import keep
from mog_assets.papers.mix_of_granularity.graph.packed import differences, load_columns, save_columns, sums
from mog_assets.papers.mix_of_granularity.graph.sentence_graph import Graph

# Up to this many centres, compiling the search takes longer than it saves.
_FEW = 500
_BLOCK = 8_192

FILES = ("members.parquet", "sizes.parquet")

Membership = tuple[np.ndarray, np.ndarray]
"""Neighbourhoods of all nodes as a CSR matrix: int64 `indptr` of shape (nodes + 1,), and int32 `indices`, the nodes of
each neighbourhood, ascending: in order of document and position."""


@dataclass(frozen=True)
class Around:
    """The largest neighbourhoods of nodes, which contain those of fewer hops.

    Attributes:
        sizes: int32 array of shape (nodes,): members of each.
        nodes: int32 array: the members, ascending in each.
        hops: uint8 array: distance of each member from its centre.
    """

    sizes: np.ndarray
    nodes: np.ndarray
    hops: np.ndarray

    @cached_property
    def indptr(self) -> np.ndarray:
        """int64 array of shape (nodes + 1,): where the members of each neighbourhood begin."""
        return np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])

    def within(self, hop: int) -> Membership:
        """Return the neighbourhoods of some hops."""
        near = self.hops <= hop
        if near.all():
            return self.indptr, self.nodes
        # A centre is a member, so none is empty.
        sizes = np.add.reduceat(near, self.indptr[:-1], dtype=np.int64)
        return np.concatenate([[0], np.cumsum(sizes)]), self.nodes[near]


def save_neighbourhoods(around: Around, members: Path, sizes: Path) -> None:
    """Write neighbourhoods: they are nested, so one file has those of all hops."""
    save_columns(members, {"node": differences(around.nodes), "hops": around.hops})
    save_columns(sizes, {"members": around.sizes})


def load_neighbourhoods(path: Callable[[str], Path]) -> Around:
    """Return neighbourhoods from their files, whose paths `path` gives by their logical names."""
    members, sizes = (load_columns(path(name)) for name in FILES)
    return Around(sizes["members"], sums(members["node"]), members["hops"])


def open_neighbourhoods(path: Callable[[str], Path], hop: int) -> Membership:
    """Return the neighbourhoods of some hops, from the files of `load_neighbourhoods`."""
    return load_neighbourhoods(path).within(hop)


def neighbourhoods(
    graph: Graph,
    lengths: np.ndarray,
    hops: int,
    max_chars: int,
    advance: Callable[[int], None] = lambda _: None,
) -> Around:
    """Return the nodes within 0 … `hops` hops of every node.

    A neighbourhood is the longest prefix of the breadth-first order of the nodes around its centre with at most
    `max_chars` characters of text; the centre always stays. Nodes at equal distance are ordered by their highest
    similarity to a node one hop nearer, then by number. So a neighbourhood contains those of fewer hops, and its memory
    is bounded by `max_chars` for any graph.

    Args:
        graph: The graph.
        lengths: int array of shape (nodes,): characters of every node, > 0.
        hops: Most hops, 0 to 255.
        max_chars: Most characters of a neighbourhood.
        advance: Called with the number of centres done since its last call.
    """
    nodes = graph.nodes
    centres = np.arange(nodes)
    indptr, ranks, node_of = _ranked(graph, lengths, max_chars)
    scratch = (np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64), np.zeros(nodes, np.int64))
    arrays = (indptr, ranks, node_of, lengths.astype(np.int64), *scratch)
    search = _compiled() if len(centres) > _FEW else _breadth_first
    sizes = [np.zeros(0, np.int32)]
    members, distances = [np.zeros(0, np.int32)], [np.zeros(0, np.uint8)]
    for first in range(0, len(centres), _BLOCK):
        around, counts = search(*arrays, hops, max_chars, centres[first : first + _BLOCK])
        node, distance = np.divmod(around, 256)
        sizes.append(counts.astype(np.int32))
        members.append(node.astype(np.int32))
        distances.append(distance.astype(np.uint8))
        advance(len(counts))
    return Around(*(np.concatenate(parts) for parts in (sizes, members, distances)))


def _ranked(graph: Graph, lengths: np.ndarray, max_chars: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return entries of the adjacency by rank: most similar first, then by number, without those that cannot matter.

    Returns:
        indptr: int64 of shape (nodes + 1,).
        ranks: int64: ranks of the entries of every node, ascending.
        node_of: int32: the neighbour that each rank stands for.
    """
    order = np.lexsort((graph.indices, -graph.shares))
    node_of = graph.indices[order]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    ranks = ranks[np.lexsort((ranks, graph.rows))]
    # A neighbour is only added after all before it in its row: if those fill a neighbourhood, it never is. So a node
    # that thousands of others chose costs no more than one with as many neighbours as fit.
    before = np.concatenate([[0], np.cumsum(lengths[node_of[ranks]])])
    reaches = before[:-1] - before[graph.indptr[graph.rows]] <= max_chars
    counts = np.bincount(graph.rows[reaches], minlength=graph.nodes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), ranks[reaches], node_of


@cache
def _compiled() -> Any:
    import numba

    search = numba.njit(nogil=True)(_breadth_first)
    keep(search)
    return search


def _breadth_first(  # type: ignore[no-untyped-def]
    indptr, ranks, node_of, lengths, member_of, candidate_of, rank_of, hops, max_chars, centres
):
    """Return members of the neighbourhoods of some nodes, ascending in each, as 256 · node + hops; and the sizes."""
    members = np.empty(1024, np.int64)
    candidates = np.empty(1024, np.int64)
    sizes = np.zeros(len(centres), np.int64)
    used = 0
    for number in range(len(centres)):
        centre = centres[number]
        start = nearest = used
        room = max_chars - lengths[centre]
        fitting, hop = 1, 0
        candidates[0] = centre
        while True:
            if used + fitting > len(members):
                longer = np.empty(2 * (used + fitting), np.int64)
                longer[:used] = members[:used]
                members = longer
            nearest = used
            for i in range(fitting):
                member_of[candidates[i]] = centre
                members[used] = 256 * candidates[i] + hop
                used += 1
            if hop == hops or room <= 0:
                break
            hop += 1
            count = 0
            for i in range(nearest, used):
                member = members[i] // 256
                for entry in range(indptr[member], indptr[member + 1]):
                    rank = ranks[entry]
                    node = node_of[rank]
                    if member_of[node] == centre:
                        continue
                    if candidate_of[node] != centre:
                        candidate_of[node] = centre
                        rank_of[node] = rank
                        if count == len(candidates):
                            more = np.empty(2 * count, np.int64)
                            more[:count] = candidates
                            candidates = more
                        candidates[count] = node
                        count += 1
                    elif rank < rank_of[node]:
                        rank_of[node] = rank
            for i in range(count):
                candidates[i] = rank_of[candidates[i]]
            candidates[:count].sort()
            fitting = 0
            while fitting < count and lengths[node_of[candidates[fitting]]] <= room:
                candidates[fitting] = node_of[candidates[fitting]]
                room -= lengths[candidates[fitting]]
                fitting += 1
            if fitting < count:
                room = 0
            if fitting == 0:
                break
        members[start:used].sort()
        sizes[number] = used - start
    return members[:used], sizes
