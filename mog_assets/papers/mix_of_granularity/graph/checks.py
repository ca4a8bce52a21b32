"""Checks of a sentence graph before it replaces the previous one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from mog_assets.build.recipe import Check, Work
from mog_assets.index.layouts import bucket_layout, join_layouts
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import Membership, load_neighbourhoods
from mog_assets.papers.mix_of_granularity.graph.sentence_graph import Graph, open_graph
from mog_assets.papers.mix_of_granularity.settings import GRAPH
from mog_assets.text.chunks import Layout


def graph_fault(graph: Graph, nodes: int, k: int, threshold: float) -> str | None:
    """Return what is wrong with a graph of `nodes` nodes whose edges are the k best of each that reach a threshold."""
    if graph.nodes != nodes:
        return f"the graph has {graph.nodes} nodes, the documents have {nodes}"
    matrix = sparse.csr_matrix((graph.shares, graph.indices, graph.indptr), (nodes, nodes))
    if matrix.diagonal().any():
        return f"node {int(np.flatnonzero(matrix.diagonal())[0])} is a neighbour of itself"
    ascending = (np.diff(graph.indices) > 0) | (np.diff(graph.rows) > 0)
    if not ascending.all():
        return f"the neighbours of node {int(graph.rows[np.argmin(ascending)])} are not sorted and unique"
    if difference := (matrix != matrix.T).nnz:
        return f"the adjacency is not symmetric: {difference} entries differ from those of the opposite direction"
    if len(graph.edges) > k * nodes:
        return f"{len(graph.edges)} edges are more than {k} for each of {nodes} nodes"
    if len(graph.shares) and float(graph.shares.min()) < np.float32(threshold):
        return f"an edge of share {graph.shares.min()} is below the threshold {threshold}"
    return None


def _graph(work: Work) -> str | None:
    options = GRAPH.of(work.settings)
    return graph_fault(open_graph(work.draft.path), len(_lengths(work)), options.k, options.threshold)


def _neighbourhoods(work: Work) -> str | None:
    options, around = GRAPH.of(work.settings), load_neighbourhoods(work.draft.path)
    within = [around.within(hop) for hop in range(options.hops + 1)]
    return neighbourhoods_fault(within, _lengths(work), options.max_chars)


def neighbourhoods_fault(around: Sequence[Membership], lengths: np.ndarray, max_chars: int) -> str | None:
    """Return what is wrong with the neighbourhoods of 0, 1, … hops of nodes of these lengths."""
    shape = (len(lengths), len(lengths))
    below = None
    for hop, (indptr, indices) in enumerate(around):
        here = sparse.csr_matrix((np.ones(len(indices), bool), indices, indptr), shape)
        if not here.diagonal().all():
            return f"{int((~here.diagonal()).sum())} neighbourhoods of {hop} hops do not contain their centre"
        characters = np.add.reduceat(lengths[indices], indptr[:-1])
        if long := int((characters > np.maximum(max_chars, lengths)).sum()):
            return f"{long} neighbourhoods of {hop} hops have more than {max_chars} characters"
        if below is not None and (below > here).nnz:
            return f"neighbourhoods of {hop} hops lack nodes of those of {hop - 1} hops"
        below = here
    return None


def open_nodes(work: Work) -> Layout:
    """Open the layout whose level-1 chunks are the nodes of a corpus, which are written together with its graph."""
    documents = work.input("documents")
    parts = [bucket_layout(documents.path(name), work.draft.path(name)) for name in documents.names("bucket")]
    return join_layouts(str(work.corpus), parts)


def _lengths(work: Work) -> np.ndarray:
    """Count the characters of every node."""
    return np.diff(open_nodes(work).spans, axis=1).ravel()


GRAPH_HOLDS = Check(
    "graph_holds",
    "Edges link two different nodes, are symmetric, are at most k per node, and reach the threshold.",
    _graph,
)
NEIGHBOURHOODS_HOLD = Check(
    "neighbourhoods_hold",
    "Every neighbourhood contains its centre and those of fewer hops, and is not too long.",
    _neighbourhoods,
)
