"""Make the graph of some nodes, and their neighbourhoods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.build.recipe import Work
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import FILES as NEIGHBOURHOODS
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import (
    Around,
    load_neighbourhoods,
    neighbourhoods,
    save_neighbourhoods,
)
from mog_assets.papers.mix_of_granularity.graph.sentence_graph import (
    FILE,
    Graph,
    index_of,
    link,
    neighbours,
    open_graph,
    save_graph,
    save_index,
    searched,
)
from mog_assets.papers.mix_of_granularity.settings import GRAPH

# Queries per block: a few seconds of work.
_BLOCK = 16_384


@dataclass(frozen=True)
class BuiltGraph:
    """A graph and its neighbourhoods."""

    graph: Graph
    around: Around


def make(work: Work, counts: Any, lengths: np.ndarray) -> BuiltGraph:
    """Write all files of a graph.

    Args:
        work: Receives the files, and has that of the counts.
        counts: CSR matrix of shape (nodes, terms): how often each term occurs in each node.
        lengths: Characters of each node.
    """
    options, bm25, nodes = GRAPH.of(work.settings), work.settings.bm25, work.draft.files["nodes.npz"]
    edges, linked = work.file(FILE, nodes, bm25.k1, bm25.b, options.k, options.threshold)
    if linked:
        graph = open_graph(work.draft.path)
    else:
        index = index_of(counts, bm25.k1, bm25.b)
        nearest = _search(work, index, [nodes, bm25.k1, bm25.b, options.k])
        graph = link(*neighbours(*nearest, index["asks"], index["self"]), options.threshold)
        with work.writing(edges) as path:
            save_graph(graph, path)
    key = (work.draft.files[FILE], options.hops, options.max_chars)
    files = [work.file(name, *key) for name in NEIGHBOURHOODS]
    if all(written for _, written in files):
        return BuiltGraph(graph, load_neighbourhoods(work.draft.path))
    with work.progress(graph.nodes, "neighbourhoods gathered") as advance:
        around = neighbourhoods(graph, lengths, options.hops, options.max_chars, advance)
    _write([path for path, _ in files], work, lambda *paths: save_neighbourhoods(around, *paths))
    return BuiltGraph(graph, around)


def _search(work: Work, index: dict[str, np.ndarray], key: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes nearest to every query, and their scores."""
    k, queries = GRAPH.of(work.settings).k, len(index["query_indptr"]) - 1
    part, written = work.file("index.safetensors", *key)
    if not written:
        with work.writing(part) as path:
            save_index(index, path)
    jobs, keys = {}, {}
    for first in range(0, queries, _BLOCK):
        name = f"nearest_{first:010d}.safetensors"
        jobs[name] = {"index": str(part), "first": first, "last": min(first + _BLOCK, queries), "k": k}
        keys[name] = [*key, _BLOCK]
    target = "mog_assets.papers.mix_of_granularity.graph.sentence_graph:search_block"
    work.map(target, jobs, keys, "blocks of nodes searched")
    results = searched([work.draft.path(name) for name in jobs], k)
    # Not part of the artefact: they are deleted once it is complete.
    for name in ("index.safetensors", *jobs):
        del work.draft.files[name]
    work.recomputed["nodes searched"] = len(index["asks"])
    return results


def _write(paths: Sequence[Path], work: Work, save: Callable[..., None]) -> None:
    """Write files together that one function writes."""
    with ExitStack() as stack:
        save(*(stack.enter_context(work.writing(path)) for path in paths))
