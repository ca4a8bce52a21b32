"""Neighbourhoods: the nodes within some hops of a node, the chunks of MoGG.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.3: granularity is a hopping range; a chunk is a centre
node with all nodes within so many hops, each once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.compiled import keep
from mog_assets.graph.sentence_graph import Graph

# Up to this many centres, compiling the search takes longer than it saves.
_FEW = 500
_BLOCK = 8_192

Membership = tuple[np.ndarray, np.ndarray]
"""Neighbourhoods of all nodes as a CSR matrix: int64 `indptr` of shape (nodes + 1,), and int32 `indices`, the nodes of
each neighbourhood, ascending: in order of document and position."""


def open_neighbourhoods(path: Callable[[str], Path], hop: int) -> Membership:
    """The neighbourhoods of some hops, mapped from their files, whose paths `path` gives by their logical names."""
    indptr, indices = (np.load(path(f"hop_{hop}_{part}.npy"), mmap_mode="r") for part in ("indptr", "indices"))
    return indptr, indices


def neighbourhoods(
    graph: Graph,
    lengths: np.ndarray,
    hops: int,
    max_chars: int,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Membership]:
    """The nodes within 0 … `hops` hops of every node.

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

    Returns:
        A membership for each number of hops from 0 on.
    """
    nodes = graph.nodes
    indptr, ranks, node_of = _ranked(graph, lengths, max_chars)
    scratch = (np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64), np.zeros(nodes, np.int64))
    arrays = (indptr, ranks, node_of, lengths.astype(np.int64), *scratch)
    search = _compiled() if nodes > _FEW else _breadth_first
    counts = np.zeros((hops + 1, nodes), np.int64)
    members: list[list[np.ndarray]] = [[np.zeros(0, np.int32)] for _ in range(hops + 1)]
    for first in range(0, nodes, _BLOCK):
        last = min(first + _BLOCK, nodes)
        found, sizes = search(*arrays, hops, max_chars, first, last)
        node, distance = np.divmod(found, 256)
        centre = np.repeat(np.arange(first, last), sizes)
        for hop in range(hops + 1):
            near = distance <= hop
            counts[hop, first:last] = np.bincount(centre[near] - first, minlength=last - first)
            members[hop].append(node[near].astype(np.int32))
        advance(last - first)
    return [
        (np.concatenate([[0], np.cumsum(count)]), np.concatenate(parts))
        for count, parts in zip(counts, members, strict=True)
    ]


def _ranked(graph: Graph, lengths: np.ndarray, max_chars: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries of the adjacency by rank: the most similar first, then by number, without those that cannot matter.

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
    indptr, ranks, node_of, lengths, member_of, candidate_of, rank_of, hops, max_chars, first, last
):
    """Members of the neighbourhoods of nodes `first` to `last` − 1, ascending, as 256 · node + hops; and the sizes."""
    members = np.empty(1024, np.int64)
    candidates = np.empty(1024, np.int64)
    sizes = np.zeros(last - first, np.int64)
    used = 0
    for centre in range(first, last):
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
            number = 0
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
                        if number == len(candidates):
                            more = np.empty(2 * number, np.int64)
                            more[:number] = candidates
                            candidates = more
                        candidates[number] = node
                        number += 1
                    elif rank < rank_of[node]:
                        rank_of[node] = rank
            for i in range(number):
                candidates[i] = rank_of[candidates[i]]
            candidates[:number].sort()
            fitting = 0
            while fitting < number and lengths[node_of[candidates[fitting]]] <= room:
                candidates[fitting] = node_of[candidates[fitting]]
                room -= lengths[candidates[fitting]]
                fitting += 1
            if fitting < number:
                room = 0
            if fitting == 0:
                break
        members[start:used].sort()
        sizes[centre - first] = used - start
    return members[:used], sizes
