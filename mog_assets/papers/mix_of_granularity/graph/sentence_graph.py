"""Edges of the sentence graph: every node is a BM25 query for the nodes most similar to it.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.3: each node is a query, its k_graph best nodes by BM25
become neighbours where their similarity reaches T_graph. Decisions that the paper leaves open:

- A node's text alone is document and query. With the title, all nodes of a document would be neighbours.
- A term that occurs twice in a node counts twice in its query, as in any other query.
- Similarity is the score as a share of the node's score against itself. BM25 favours short texts, so a share may exceed
  1. An edge that both of its nodes choose has the larger share of the two.
- Equal scores go to the smaller node number.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy import sparse

from mog_assets.papers.level_search.bm25 import keep_kernel, open_bm25s, term_weights
from mog_assets.papers.mix_of_granularity.graph.packed import differences, load_columns, save_columns, sums
from mog_assets.resources.arrays import pairs

# Extra results: most ties at the last place end there; the others are decided with all scores.
_SLACK = 8
# Up to this many queries, compiling numba's kernel takes longer than it saves.
_FEW = 16_000
# Queries that a thread takes at a time.
_PART = 1_024
# Shares are rounded to five decimals.
_UNIT = 1e5


@dataclass(frozen=True)
class Graph:
    """Undirected edges as a symmetric CSR matrix with an empty diagonal.

    Attributes:
        indptr: int64 array of shape (nodes + 1,).
        indices: int32 array: the neighbours of node i are its entries indptr[i] … indptr[i+1] − 1, ascending.
        shares: float32 array: similarity of the two nodes of each edge, > 0.
    """

    indptr: np.ndarray
    indices: np.ndarray
    shares: np.ndarray

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.indptr) - 1

    @property
    def degrees(self) -> np.ndarray:
        """int64 array of shape (nodes,): neighbours of every node."""
        return np.diff(self.indptr)

    @cached_property
    def rows(self) -> np.ndarray:
        """int32 array: the node that every entry of `indices` is a neighbour of."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), self.degrees)

    @cached_property
    def edges(self) -> np.ndarray:
        """int32 array of shape (edges, 2): every edge once, smaller node first, in order."""
        upper = self.rows < self.indices
        return np.stack([self.rows[upper], self.indices[upper]], axis=1)

    @cached_property
    def components(self) -> np.ndarray:
        """int32 array of shape (nodes,): the number of every node's connected component."""
        from scipy.sparse.csgraph import connected_components

        matrix = sparse.csr_matrix((self.shares, self.indices, self.indptr), (self.nodes, self.nodes))
        return connected_components(matrix, directed=False)[1]


FILE = "edges.parquet"


def save_graph(graph: Graph, path: Path) -> None:
    """Write every edge once, and the number of nodes as the last row's ends."""
    upper = graph.rows < graph.indices
    last = np.int32(graph.nodes)
    first, second = (np.append(ends, last) for ends in graph.edges.T)
    share = np.append(np.rint(graph.shares[upper].astype(np.float64) * _UNIT), 0).astype(np.uint32)
    save_columns(path, {"first": differences(first), "second": second, "share": share})


def open_graph(path: Callable[[str], Path]) -> Graph:
    """Return the graph of a corpus from its file, whose path `path` gives by its logical name."""
    columns = load_columns(path(FILE))
    first, second = sums(columns["first"]), columns["second"]
    return graph_of(int(first[-1]), first[:-1], second[:-1], (columns["share"][:-1] / _UNIT).astype(np.float32))


def graph_of(nodes: int, first: np.ndarray, second: np.ndarray, shares: np.ndarray) -> Graph:
    """Return the graph with these edges, each once.

    Args:
        nodes: Number of nodes.
        first: int32 array of shape (edges,): one node of each edge.
        second: int32 array of shape (edges,): the other.
        shares: float32 array of shape (edges,).
    """
    row, other = np.concatenate([first, second]), np.concatenate([second, first])
    order = np.argsort(pairs(row, other), kind="stable")
    counts = np.bincount(row, minlength=nodes)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Graph(indptr, other[order], np.tile(shares, 2)[order])


def index_of(counts: Any, k1: float, b: float) -> dict[str, np.ndarray]:
    """Return the nodes weighted by Lucene's BM25, and their queries.

    Nodes with the same terms share one query: phrases that a site repeats are a third of some corpora.

    Args:
        counts: int32 CSR matrix of shape (nodes, terms), indices sorted: how often each term occurs in each node. For a
            graph over several corpora, the nodes of all of them over one vocabulary.
        k1: Term frequency saturation.
        b: Length normalisation.

    Returns:
        `data`, `indices`, `indptr`: CSC arrays of shape (nodes, terms), float32 weights. `query`, `query_indptr`: terms
        of every query. `asks`: the query of each node. `self`: float64 score of each node against itself.
    """
    nodes = counts.shape[0]
    tf = counts.data.astype(np.float64)
    row = np.repeat(np.arange(nodes), np.diff(counts.indptr))
    lengths = np.bincount(row, tf, nodes)
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    over = nodes, lengths.sum() / max(nodes, 1)
    weights = term_weights(counts.data, frequency[counts.indices], lengths[row], *over, k1, b)
    columns = sparse.csr_matrix((weights, counts.indices, counts.indptr), counts.shape).tocsc()
    terms = np.repeat(counts.indices, counts.data).astype(np.int32)
    cuts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    number: dict[bytes, int] = {}
    asks = [number.setdefault(terms[i:j].tobytes(), len(number)) for i, j in pairwise(cuts)]
    return {
        "data": columns.data,
        "indices": columns.indices.astype(np.int32),
        "indptr": columns.indptr.astype(np.int64),
        "query": np.frombuffer(bytearray().join(number), np.int32),
        "query_indptr": np.cumsum([0, *(len(query) // 4 for query in number)]).astype(np.int64),
        "asks": np.asarray(asks, np.int32),
        "self": np.bincount(row, tf * weights, nodes),
    }


def save_index(index: Mapping[str, np.ndarray], path: Path) -> None:
    """Write an index with all its queries."""
    save_file(dict(index), path)


def query_count(index: Path) -> int:
    """Return number of queries of an index."""
    with safe_open(index, "numpy") as tensors:
        return tensors.get_slice("query_indptr").get_shape()[0] - 1


def search_block(index: str, out: str, first: int, last: int, k: int) -> int:
    """Find the k + 1 best nodes for every query from `first` to `last` − 1, exactly.

    Args:
        index: File that `save_index` wrote.
        out: File to write: `nodes`, int32 of shape (last − first, k + 1), best first, equal scores by number, −1 if
            fewer nodes share a term with the query; `scores`, float32 likewise.
        first: First query of the block.
        last: The one after its last.
        k: How many, besides the node of the query.

    Returns:
        Number of queries.
    """
    arrays = load_file(index)
    opened = open_bm25s(arrays["data"], arrays["indices"], arrays["indptr"], len(arrays["asks"]))
    queries = [arrays["query"][i:j].tolist() for i, j in pairwise(arrays["query_indptr"][first : last + 1])]
    keep_kernel()
    compiled = len(arrays["query_indptr"]) > _FEW
    parts = [queries[i : i + _PART] for i in range(0, len(queries), _PART)]
    # Our own threads, as bm25s's kernel releases the GIL: numba's would load the OpenMP library before torch, and make
    # torch's bf16 on the CPU 20 times slower. Processes of a pool have one core each.
    threads = 1 if multiprocessing.parent_process() else os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        parts_found = list(pool.map(lambda part: _search(opened, part, k + 1, compiled), parts))
    nodes, scores = (np.concatenate(column) for column in zip(*parts_found, strict=True))
    save_file({"nodes": nodes, "scores": scores}, out)
    return len(queries)


def _search(index: Any, queries: Sequence[list[int]], k: int, compiled: bool) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.full((len(queries), k), -1, np.int32)
    scores = np.zeros((len(queries), k), np.float32)
    filled = np.array([row for row, query in enumerate(queries) if query], np.int64)
    # Queries that need all scores, with the lowest score that matters.
    unsettled = [(row, np.float32(0)) for row in filled]
    if compiled and len(filled):
        total = index.scores["num_docs"]
        depth = min(k + _SLACK, total)
        result = index.retrieve([queries[row] for row in filled], k=depth, show_progress=False, n_threads=1)
        order = np.lexsort((result.documents, -result.scores), axis=1)
        nearest, values = (np.take_along_axis(a, order, 1) for a in (result.documents, result.scores))
        width = min(k, depth)
        nodes[filled, :width] = np.where(values > 0, nearest, -1)[:, :width]
        scores[filled, :width] = values[:, :width]
        floor = values[:, width - 1]
        cut_off = (floor > 0) & (floor == values[:, -1]) & (depth < total)
        unsettled = list(zip(filled[cut_off], floor[cut_off], strict=True))
    for row, least in unsettled:
        every = index.get_scores_from_ids(queries[row])
        near = np.flatnonzero((every >= least) & (every > 0))
        best = near[np.argsort(-every[near], kind="stable")[:k]]
        nodes[row, : len(best)] = best
        scores[row, : len(best)] = every[best]
    return nodes, scores


def searched(blocks: Sequence[Path], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return k + 1 best nodes of queries and their scores, from files that `search_block` wrote for them in order."""
    parts = [load_file(path) for path in blocks]
    nodes, scores = (
        np.concatenate([np.zeros((0, k + 1), kind), *(part[name] for part in parts)])
        for name, kind in (("nodes", np.int32), ("scores", np.float32))
    )
    return nodes, scores


def neighbours(
    nodes: np.ndarray, scores: np.ndarray, asks: np.ndarray, self_scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best other nodes of every node, from the results of its query.

    Args:
        nodes: int32 array of shape (queries, k + 1): the best nodes of each query, −1 if there is none.
        scores: float32 array of shape (queries, k + 1).
        asks: Query of each node.
        self_scores: Score of each node against itself, float64 array of shape (nodes,).

    Returns:
        Nodes, int32 of shape (nodes, k), −1 if fewer other nodes share a term; and float32 shares of the score of the
        node against itself, to five decimals, 0 if there is no node.
    """
    k = nodes.shape[1] - 1
    targets, scores = nodes[asks], scores[asks]
    dropped = targets == np.arange(len(asks))[:, None]
    # If k + 1 others score at least as well as the node itself.
    dropped[~dropped.any(axis=1), k] = True
    others, scores = (a[~dropped].reshape(-1, k) for a in (targets, scores))
    shares = np.divide(scores, self_scores[:, None], out=np.zeros(others.shape), where=others >= 0)
    # Both scores are sums of rounded weights, and equal texts should have a share of exactly 1.
    return others, np.round(shares, 5).astype(np.float32)


def link(nodes: np.ndarray, shares: np.ndarray, threshold: float) -> Graph:
    """Return the graph with an edge from every node to each neighbour that reaches the threshold.

    Args:
        nodes: int32 of shape (n, k): other nodes, −1 if there is none.
        shares: float32 of shape (n, k).
        threshold: Least share of an edge.
    """
    strong = (nodes >= 0) & (shares >= np.float32(threshold)) & (shares > 0)
    row = np.broadcast_to(np.arange(len(nodes), dtype=np.int32)[:, None], nodes.shape)[strong]
    other, share = nodes[strong], shares[strong]
    row, other, share = np.concatenate([row, other]), np.concatenate([other, row]), np.tile(share, 2)
    order = np.lexsort((-share, other, row))
    row, other, share = row[order], other[order], share[order]
    first = np.ones(len(row), bool)
    first[1:] = (row[1:] != row[:-1]) | (other[1:] != other[:-1])
    counts = np.bincount(row[first], minlength=len(nodes))
    return Graph(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), other[first], share[first])
