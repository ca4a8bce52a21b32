"""Assets of the graph stage: `sentence_graph` and `hop_statistics`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mog_assets.build.recipe import Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.index.chunk_assets import SPANS_TILE
from mog_assets.index.corpora import Corpora
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.statistics import Counted
from mog_assets.index.statistics_assets import statistics_settings, write_statistics
from mog_assets.index.tokens import assemble, languages_of
from mog_assets.papers.mix_of_granularity.graph import checks
from mog_assets.papers.mix_of_granularity.graph.building import make
from mog_assets.papers.mix_of_granularity.graph.index_on_disk import save_terms
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import Around
from mog_assets.papers.mix_of_granularity.graph.packed import save_matrix
from mog_assets.papers.mix_of_granularity.graph.search import Neighbourhoods
from mog_assets.papers.mix_of_granularity.settings import GRAPH
from mog_assets.text.chunks import Layout
from mog_assets.text.terms import ANALYSIS

GROUP = "mix_of_granularity"


def build_sentence_graph(work: Work) -> None:
    """Split documents into nodes and count their terms; find the edges and the neighbourhood of every node.

    Only changed documents are split and counted again; edges and neighbourhoods are made anew.
    """
    _join(work, _nodes(work))


def _join(work: Work, counts: Any) -> None:
    """Make the graph and the neighbourhoods of nodes with these term counts, with a table of them."""
    layout = checks.open_nodes(work)
    lengths = np.diff(layout.spans, axis=1).ravel()
    built = make(work, counts, lengths)
    graph = built.graph
    across = layout.document_of[graph.edges]
    components = graph.components
    work.counts |= {
        "nodes": graph.nodes,
        "mean characters": round(float(lengths.mean()), 1),
        "edges": len(graph.edges),
        "edges across documents, %": round(100 * float((across[:, 0] != across[:, 1]).sum()) / max(len(across), 1), 1),
        "components": int(components.max(initial=-1)) + 1,
        "nodes of the largest component": int(np.bincount(components).max(initial=0)),
        "nodes without neighbours": int((graph.degrees == 0).sum()),
    }
    hops = range(GRAPH.of(work.settings).hops + 1)
    work.show_table("neighbourhoods", [_reach(built.around, hop, layout, lengths) for hop in hops])


def _nodes(work: Work) -> Any:
    """Write spans and term counts of the nodes of a corpus; returns the counts."""
    documents = work.input("documents")
    names = documents.names("bucket")
    texts = {name: pq.read_table(documents.path(name), columns=["sha256"])["sha256"].to_pylist() for name in names}
    options = {"sentences": GRAPH.of(work.settings).sentences, "longest": work.settings.finest_chars}
    jobs: dict[str, dict[str, Any]] = {name: {"documents": str(documents.path(name)), **options} for name in names}
    keys = {name: [texts[name], options] for name in names}
    split = sum(
        work.map(
            "mog_assets.papers.mix_of_granularity.graph.nodes:split_nodes", jobs, keys, "buckets split", reuse=True
        )
    )
    total = sum(len(bucket) for bucket in texts.values())
    counted = {name: name.replace("bucket", "counts") for name in names}
    jobs = {counted[n]: {"documents": str(documents.path(n)), "spans": str(work.draft.path(n))} for n in names}
    keys = {counted[n]: [*keys[n], languages_of(documents.path(n)), ANALYSIS] for n in names}
    tokenised = sum(work.map("mog_assets.index.tokens:count_bucket", jobs, keys, "buckets tokenised", reuse=True))
    work.recomputed |= {
        "documents split": split,
        "documents tokenised": tokenised,
        "documents unchanged": total - max(split, tokenised),
    }
    layouts = [bucket_layout(documents.path(n), work.draft.path(n)) for n in names]
    terms_of = assemble([work.draft.path(name) for name in counted.values()], layouts)
    buckets = [work.draft.files[name] for name in counted.values()]
    work.write("terms.parquet", [buckets], partial(save_terms, terms_of["terms"]))
    for name, matrix in (("nodes", terms_of["chunks"]), ("titles", terms_of["titles"])):
        work.write(f"{name}.npz", [buckets], partial(save_matrix, matrix=matrix))
    return terms_of["chunks"]


def _reach(around: Around, hop: int, layout: Layout, lengths: np.ndarray) -> dict[str, Any]:
    indptr, indices = around.within(hop)
    characters = np.add.reduceat(lengths[indices], indptr[:-1])
    return {
        "hops": hop,
        "mean nodes": float(np.diff(indptr).mean()),
        "most nodes": int(np.diff(indptr).max()),
        "mean characters": float(characters.mean()),
        "most characters": int(characters.max()),
        "mean documents": float(_documents(indptr, indices, layout).mean()),
    }


def _documents(indptr: np.ndarray, indices: np.ndarray, layout: Layout) -> np.ndarray:
    """Return number of documents of each neighbourhood; its nodes are in order of document."""
    document = layout.document_of.astype(np.int32)[indices]
    new = np.ones(len(indices), bool)
    new[1:] = document[1:] != document[:-1]
    new[indptr[:-1]] = True
    return np.add.reduceat(new, indptr[:-1], dtype=np.int64)


def build_hop_statistics(work: Work) -> None:
    """Count in how many neighbourhoods of each number of hops terms occur."""

    def count(corpus: str) -> dict[str, Counted]:
        around = Neighbourhoods.open(Corpora.open(work.input, work.settings, [corpus]))
        return {
            f"hop_{hop}": counts
            for hop in range(GRAPH.of(work.settings).hops + 1)
            for _, counts in around.frequencies(hop + 1)
        }

    write_statistics(work, count)


def _options(tools: Tools) -> Any:
    bm25 = tools.settings.bm25
    return [GRAPH.of(tools.settings).model_dump(), tools.settings.finest_chars, bm25.k1, bm25.b, ANALYSIS]


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage."""
    return [
        Recipe(
            key="sentence_graph",
            build=build_sentence_graph,
            description="Sentences of a corpus, linked to the most similar ones by BM25, and their neighbourhoods.",
            group=GROUP,
            deps=("documents",),
            settings=_options,
            version="3",
            checks=(SPANS_TILE, checks.GRAPH_HOLDS, checks.NEIGHBOURHOODS_HOLD),
            kinds=("numpy",),
        ),
        Recipe(
            key="hop_statistics",
            build=build_hop_statistics,
            description="Document frequencies and lengths of neighbourhoods.",
            group=GROUP,
            deps=("documents", "chunks/level_1", "sentence_graph"),
            partitioned=False,
            settings=lambda tools: [statistics_settings(tools), _options(tools)],
            version="3",
            kinds=("arrow",),
        ),
    ]
