"""Make the graph of some nodes and their neighbourhoods, or bring those of an earlier build up to date.

With the same term statistics both give the same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.arrays import save_array
from mog_assets.papers.mix_of_granularity.graph.nearest import FILES as NEAREST
from mog_assets.papers.mix_of_granularity.graph.nearest import (
    Nearest,
    Nodes,
    carry_over,
    load_nearest,
    matched,
    nothing_known,
    save_nearest,
)
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import FILES as NEIGHBOURHOODS
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import (
    Around,
    joined,
    load_neighbourhoods,
    neighbourhoods,
    save_neighbourhoods,
    unaffected,
)
from mog_assets.papers.mix_of_granularity.graph.packed import load_columns, save_columns
from mog_assets.papers.mix_of_granularity.graph.sentence_graph import (
    FILE,
    Graph,
    found_in,
    index_of,
    link,
    neighbours,
    open_graph,
    save_graph,
    save_index,
)
from mog_assets.papers.mix_of_granularity.graph.statistics import (
    NodeStatistics,
    load_statistics,
    renewal,
    save_statistics,
    take_statistics,
)
from mog_assets.recipe import Work
from mog_assets.resources.manifest import digest
from mog_assets.resources.store import Artefact

STATISTICS = ("statistics.parquet", "counted.npy")
NODES = ("documents.parquet", "prints.parquet")

# Queries per block: a few seconds of work.
_BLOCK = 16_384


@dataclass(frozen=True)
class Made:
    """A graph, its neighbourhoods, and how many documents changed since its statistics were taken."""

    graph: Graph
    around: Around
    drifted: int


@dataclass(frozen=True)
class _Earlier:
    """What an earlier build with the same statistics and settings found, and where its nodes are now."""

    number: np.ndarray
    nearest: Nearest
    graph: Graph
    around: Around


def rebuild(
    work: Work,
    prefix: str,
    nodes: Nodes,
    terms: Sequence[str],
    counts: Any,
    lengths: np.ndarray,
    made_from: Sequence[str],
) -> Made:
    """Write all files of a graph.

    Args:
        work: Receives the files, what was recomputed, and whether statistics were renewed.
        prefix: Of the names of the files.
        nodes: What tells the nodes from those of an earlier build.
        terms: Terms of the nodes, sorted.
        counts: CSR matrix of shape (nodes, terms).
        lengths: Characters of each node.
        made_from: What the counts depend on.
    """
    options, bm25 = work.settings.graph, work.settings.bm25
    held = work.comparable
    statistics, drifted, reason = _statistics(work, prefix, held, nodes.keys, terms, counts, made_from)
    listed = [work.file(prefix + name, digest(nodes.keys.tolist()), *made_from) for name in NODES]
    _write(work, listed, lambda *paths: _save_nodes(nodes, *paths))
    weighted = [*made_from, work.draft.files[prefix + STATISTICS[0]], bm25.k1, bm25.b, options.k]
    nearest = {name: work.file(prefix + name, weighted) for name in NEAREST}
    edges, linked = work.file(prefix + FILE, weighted, options.threshold)
    members = {
        name: work.file(prefix + name, work.draft.files[prefix + FILE], options.hops, options.max_chars)
        for name in NEIGHBOURHOODS
    }
    searched, gathered = (all(there for _, there in files.values()) for files in (nearest, members))
    earlier = None if reason or (searched and gathered) else _earlier(held, prefix, nodes)
    if searched and linked:
        graph = open_graph(lambda name: work.draft.path(prefix + name))
    else:
        over = statistics.nodes, statistics.mean_length
        index = index_of(counts, bm25.k1, bm25.b, statistics.frequencies_of(terms), over)
        if searched:
            lists = load_nearest(*(path for path, _ in nearest.values()))
        else:
            lists = _search(work, prefix, index, weighted, earlier)
            _write(work, list(nearest.values()), lambda *paths: save_nearest(lists, *paths))
        graph = link(*neighbours(lists.nodes, lists.scores, lists.asks, index["self"]), options.threshold)
        _write(work, [(edges, linked)], lambda path: save_graph(graph, path))
    if gathered:
        around = load_neighbourhoods(lambda name: work.draft.path(prefix + name))
    else:
        around = _gather(work, graph, lengths, earlier)
        _write(work, list(members.values()), lambda *paths: save_neighbourhoods(around, *paths))
    return Made(graph, around, drifted)


def _statistics(
    work: Work,
    prefix: str,
    held: Artefact | None,
    documents: np.ndarray,
    terms: Sequence[str],
    counts: Any,
    made_from: Sequence[str],
) -> tuple[NodeStatistics, int, str | None]:
    """The statistics that weigh the nodes, documents changed since they were taken, and why if they are taken now."""
    names = [prefix + name for name in STATISTICS]
    before = load_statistics(*map(held.path, names)) if held and held.names(names[0]) else None
    forced = "forced" if work.repeats else None
    changed, reason = renewal(before, documents, work.settings.drift.documents, forced)
    work.info.setdefault("statistics", {})[prefix.removesuffix("_")] = {
        "documents changed": changed,
        "renewed": reason,
    }
    if before is not None and held is not None and reason is None:
        work.keep(held, *names)
        return before, changed, None
    taken = take_statistics(counts, terms, documents)
    files = [work.file(name, digest(taken.documents.tolist()), *made_from) for name in names]
    _write(work, files[:1], lambda path: save_statistics(taken, path))
    _write(work, files[1:], lambda path: save_array(path, taken.documents))
    return taken, 0, reason


def _save_nodes(nodes: Nodes, documents: Path, prints: Path) -> None:
    save_columns(documents, {"name": nodes.names, "key": nodes.keys, "nodes": nodes.sizes.astype(np.int32)})
    save_columns(prints, {"print": nodes.prints})


def _load_nodes(documents: Path, prints: Path) -> Nodes:
    columns = load_columns(documents)
    return Nodes(columns["name"], columns["key"], columns["nodes"], load_columns(prints)["print"])


def _earlier(held: Artefact | None, prefix: str, nodes: Nodes) -> _Earlier | None:
    """What the artefact before holds about the nodes of now; None if its nodes are in another order."""
    if held is None:
        return None
    number = matched(_load_nodes(*(held.path(prefix + name) for name in NODES)), nodes)
    if number is None:
        return None

    def path(name: str) -> Path:
        return held.path(prefix + name)

    return _Earlier(number, load_nearest(*map(path, NEAREST)), open_graph(path), load_neighbourhoods(path))


def _search(
    work: Work, prefix: str, index: dict[str, np.ndarray], weighted: Sequence[Any], earlier: _Earlier | None
) -> Nearest:
    """The nodes nearest to every node; only those queries are searched whose results are not known."""
    k = work.settings.graph.k
    asks, queries = index["asks"], len(index["query_indptr"]) - 1
    if earlier is None:
        lists, wanted = nothing_known(asks, queries, k)
    else:
        new = np.setdiff1d(np.arange(len(asks)), earlier.number)
        lists, wanted = carry_over(earlier.nearest, earlier.number, asks, queries, new, index)
    key = [*weighted, digest(wanted.tolist())]
    part, there = work.file(f"{prefix}index.safetensors", key)
    _write(work, [(part, there)], lambda path: save_index(index, path, wanted))
    jobs, keys = {}, {}
    for first in range(0, len(wanted), _BLOCK):
        name = f"{prefix}found_{first:010d}.safetensors"
        jobs[name] = {"index": str(part), "first": first, "last": min(first + _BLOCK, len(wanted)), "k": k}
        keys[name] = [key, _BLOCK]
    work.map(
        "mog_assets.papers.mix_of_granularity.graph.sentence_graph:search_block", jobs, keys, "blocks of nodes searched"
    )
    lists.nodes[wanted], lists.scores[wanted] = found_in([work.draft.path(name) for name in jobs], k)
    # Not part of the artefact: they are deleted once it is complete.
    for name in (f"{prefix}index.safetensors", *jobs):
        del work.draft.files[name]
    _count(work, "nodes searched", int(np.isin(asks, wanted).sum()))
    return lists


def _gather(work: Work, graph: Graph, lengths: np.ndarray, earlier: _Earlier | None) -> Around:
    """The neighbourhoods of every node; only those are gathered that can differ from earlier ones."""
    options = work.settings.graph
    kept, centres = np.zeros(0, np.int64), np.arange(graph.nodes)
    if earlier is not None:
        same = unaffected(earlier.around, earlier.graph, graph, earlier.number, options.hops)
        kept = np.flatnonzero(same)
        centres = np.setdiff1d(centres, earlier.number[kept])
    with work.progress(len(centres), "neighbourhoods gathered") as advance:
        found = neighbourhoods(graph, lengths, options.hops, options.max_chars, advance, centres)
    _count(work, "neighbourhoods gathered", len(centres))
    return found if earlier is None else joined(earlier.around, earlier.number, kept, found, centres)


def _write(work: Work, files: Sequence[tuple[Path, bool]], save: Callable[..., None]) -> None:
    """Write files together that one function writes, unless all are there."""
    if all(there for _, there in files):
        return
    with ExitStack() as stack:
        save(*(stack.enter_context(work.writing(path)) for path, _ in files))


def _count(work: Work, what: str, number: int) -> None:
    work.recomputed[what] = work.recomputed.get(what, 0) + number
