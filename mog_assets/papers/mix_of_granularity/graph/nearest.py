"""The nodes nearest to every node, kept between builds, so that an edit searches again only where it can matter.

With the same statistics, scores of two nodes stay the same while both are there. So a node's list stays exact for the
nodes that were there before, unless one of it is gone; new nodes enter it by their scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mog_assets.arrays import places, ranges
from mog_assets.papers.mix_of_granularity.graph.packed import differences, load_columns, save_columns, sums

FILES = ("nearest.parquet", "asks.parquet")

# Any odd number with many bits.
_ODD = np.uint64(0x9E3779B97F4A7C15)
# Queries that new nodes are scored for at a time.
_BLOCK = 16_384


@dataclass(frozen=True)
class Nearest:
    """The k + 1 best nodes of every query; the node of the query is usually one of them.

    Attributes:
        asks: int32 array of shape (nodes,): the query of each node; queries are numbered in order of their first node.
        nodes: int32 array of shape (queries, k + 1): best first, equal scores by number, −1 if fewer share a term.
        scores: float32 array of shape (queries, k + 1), 0 if there is no node.
    """

    asks: np.ndarray
    nodes: np.ndarray
    scores: np.ndarray


def save_nearest(nearest: Nearest, lists: Path, asks: Path) -> None:
    """Write the lists of all queries, and the query of every node."""
    columns = {}
    for rank in range(nearest.nodes.shape[1]):
        columns[f"node_{rank}"] = differences(nearest.nodes[:, rank])
        columns[f"score_{rank}"] = np.ascontiguousarray(nearest.scores[:, rank])
    save_columns(lists, columns)
    save_columns(asks, {"query": differences(nearest.asks)})


def load_nearest(lists: Path, asks: Path) -> Nearest:
    """Read what `save_nearest` wrote."""
    columns = load_columns(lists)
    ranks = range(len(columns) // 2)
    nodes = np.stack([sums(columns[f"node_{rank}"]) for rank in ranks], axis=1)
    scores = np.stack([columns[f"score_{rank}"] for rank in ranks], axis=1)
    return Nearest(sums(load_columns(asks)["query"]), nodes, scores)


def nothing_known(asks: np.ndarray, queries: int, k: int) -> tuple[Nearest, np.ndarray]:
    """Empty lists, and all queries: those to search."""
    lists = Nearest(asks, np.full((queries, k + 1), -1, np.int32), np.zeros((queries, k + 1), np.float32))
    return lists, np.arange(queries)


def carry_over(
    before: Nearest, number: np.ndarray, asks: np.ndarray, queries: int, new: np.ndarray, index: dict[str, np.ndarray]
) -> tuple[Nearest, np.ndarray]:
    """The lists of earlier nodes among the nodes of now, and the queries whose lists are to be searched.

    Args:
        before: Lists of the earlier nodes, by the same statistics.
        number: int array of shape (earlier nodes,): their numbers now, ascending; −1 for those that are gone.
        asks: Query of each node now.
        queries: Number of queries now.
        new: Nodes that are not among the earlier ones.
        index: See `sentence_graph.index_of`.

    Returns:
        The lists now, exact except for the queries that are returned with them: those of new nodes alone, and those
        whose list held a node that is gone.
    """
    k = before.nodes.shape[1] - 1
    lists, _ = nothing_known(asks, queries, k)
    kept = np.flatnonzero(number >= 0)
    source = np.full(queries, -1, np.int64)
    source[asks[number[kept]]] = before.asks[kept]
    known = np.flatnonzero(source >= 0)
    held = before.nodes[source[known]]
    nodes = np.where(held >= 0, np.append(number, -1)[held], -1)
    whole = ~((held >= 0) & (nodes < 0)).any(axis=1)
    known = known[whole]
    lists.nodes[known], lists.scores[known] = nodes[whole], before.scores[source[known]]
    shape = (len(index["indptr"]) - 1, len(asks))
    weights = sparse.csr_matrix((index["data"], index["indices"], index["indptr"]), shape)[:, new]
    for first in range(0, len(known) if len(new) else 0, _BLOCK):
        _enter(lists, known[first : first + _BLOCK], new, weights, index)
    return lists, np.setdiff1d(np.arange(queries), known)


def _enter(lists: Nearest, known: np.ndarray, new: np.ndarray, weights: Any, index: dict[str, np.ndarray]) -> None:
    """Let new nodes, with weights of shape (terms, new nodes), enter the lists of some queries."""
    cuts = index["query_indptr"]
    sizes = cuts[known + 1] - cuts[known]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    terms = index["query"][ranges(cuts[known], cuts[known + 1])]
    # A term that occurs twice stays two entries: scipy adds 1 · weight for each, in order and in float32, as bm25s
    # does, so that the sums are the same to the last bit.
    asked = sparse.csr_matrix((np.ones(len(terms), np.float32), terms, indptr), (len(known), weights.shape[0]))
    found = asked @ weights
    row = np.repeat(np.arange(len(known)), np.diff(found.indptr))
    # The last score is 0 in a list that is not full.
    enters = (found.data > 0) & (found.data >= lists.scores[known[row], -1])
    row, node, score = row[enters], new[found.indices[enters]], found.data[enters]
    changed = np.unique(row)
    width = lists.nodes.shape[1]
    row = np.concatenate([np.repeat(changed, width), row])
    node = np.concatenate([lists.nodes[known[changed]].ravel(), node])
    score = np.concatenate([lists.scores[known[changed]].ravel(), score])
    order = np.lexsort((node, -score, row))
    order = order[node[order] >= 0]
    place = places(row[order])
    order, place = order[place < width], place[place < width]
    lists.nodes[known[changed]], lists.scores[known[changed]] = -1, 0
    lists.nodes[known[row[order]], place], lists.scores[known[row[order]], place] = node[order], score[order]


@dataclass(frozen=True)
class Nodes:
    """What tells the nodes of two builds apart.

    Attributes:
        names: uint64 array of shape (documents,): a number for the id of each document, in order.
        keys: uint64 array of shape (documents,): a number for its id and text.
        sizes: Int array of shape (documents,): its nodes.
        prints: uint64 array of shape (nodes,): a number for the terms and the length of each node.
    """

    names: np.ndarray
    keys: np.ndarray
    sizes: np.ndarray
    prints: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """First node of each document."""
        return np.cumsum(self.sizes) - self.sizes


def node_prints(counts: Any, terms: Sequence[str], lengths: np.ndarray) -> np.ndarray:
    """A number for the terms and the length of each node, for `Nodes`: uint64 array of shape (nodes,).

    Args:
        counts: CSR matrix of shape (nodes, terms).
        terms: The terms.
        lengths: Characters of each node.
    """
    drawn = b"".join(hashlib.sha256(term.encode("utf-8", "surrogatepass")).digest()[:8] for term in terms)
    # Sums of random numbers, modulo 2^64: the same for the same terms, whatever the rest of the vocabulary is.
    found: np.ndarray = counts.astype(np.uint64) @ np.frombuffer(drawn, "<u8") + lengths.astype(np.uint64) * _ODD
    return found


def matched(before: Nodes, now: Nodes) -> np.ndarray | None:
    """Where the nodes of earlier documents are now: of an edited document, those before and after what was edited.

    Returns:
        int64 array of shape (earlier nodes,): their numbers now, ascending, −1 for those that are gone. None if the
        documents are in another order: then equal scores would be in another order too.
    """
    order = np.argsort(now.names, kind="stable")
    place = order[np.minimum(np.searchsorted(now.names, before.names, sorter=order), len(order) - 1)]
    there = now.names[place] == before.names
    if (np.diff(place[there]) <= 0).any():
        return None
    same = there & (now.keys[place] == before.keys) & (now.sizes[place] == before.sizes)
    sizes = np.where(same, before.sizes, 0)
    number = np.full(before.sizes.sum(), -1, np.int64)
    number[ranges(before.starts, before.starts + sizes)] = ranges(now.starts[place], now.starts[place] + sizes)
    for document in np.flatnonzero(there & ~same):
        first, to = before.starts[document], now.starts[place[document]]
        old = before.prints[first : first + before.sizes[document]]
        new = now.prints[to : to + now.sizes[place[document]]]
        shorter = min(len(old), len(new))
        head = _common(old[:shorter], new[:shorter])
        tail = _common(old[::-1][: shorter - head], new[::-1][: shorter - head])
        number[first : first + head] = to + np.arange(head)
        number[first + len(old) - tail : first + len(old)] = to + len(new) - tail + np.arange(tail)
    return number


def _common(old: np.ndarray, new: np.ndarray) -> int:
    """How many numbers are the same from the beginning of two arrays of the same length."""
    other = np.flatnonzero(old != new)
    return int(other[0]) if len(other) else len(old)
