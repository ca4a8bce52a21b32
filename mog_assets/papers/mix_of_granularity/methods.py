"""The methods of the paper, and of its graph variant."""

from __future__ import annotations

from collections.abc import Callable

from mog_assets.build.demand import Needs
from mog_assets.config import Settings
from mog_assets.papers.level_search.search import searched
from mog_assets.papers.mix_of_granularity.families import families
from mog_assets.papers.mix_of_granularity.ranker import (
    ROUTERS,
    hop_ranker,
    label_weights,
    level_ranker,
    router_weights,
)
from mog_assets.papers.mix_of_granularity.settings import GRAPH
from mog_assets.registry import METHOD_NAMES
from mog_assets.search.builtin_methods import levels
from mog_assets.search.groups import Groups
from mog_assets.search.methods import GROUPS, METHODS, RETRIEVERS, Kind, Method
from mog_assets.search.passages import Passages
from mog_assets.search.retrieval import Retrieval


def _hops(settings: Settings) -> range:
    return range(GRAPH.of(settings).hops + 1)


def _most_hops(settings: Settings) -> int:
    return GRAPH.of(settings).hops


def _fused(retrieval: Retrieval, method: Method, groups: Groups | None) -> Passages:
    """Return equal weights; passages are of the level of the name."""
    return level_ranker(retrieval, method.retriever, groups).equally(method.level or 1)


def _routed(retrieval: Retrieval, method: Method, groups: Groups | None) -> Passages:
    weights = router_weights(retrieval, method.kind)
    return level_ranker(retrieval, method.retriever, groups).weighted(weights)


def _labelled(retrieval: Retrieval, method: Method, groups: Groups | None) -> Passages:
    return level_ranker(retrieval, method.retriever, groups).weighted(label_weights(retrieval))


def _hop(retrieval: Retrieval, method: Method, groups: Groups | None) -> Passages:
    return hop_ranker(retrieval, groups).of_one(method.level or 1)


def _uniform(retrieval: Retrieval, method: Method, groups: Groups | None) -> Passages:
    return hop_ranker(retrieval, groups).equally()


def _hops_routed(retrieval: Retrieval, method: Method, groups: Groups | None) -> Passages:
    return hop_ranker(retrieval, groups).weighted(router_weights(retrieval, method.kind))


def _with(*common: str) -> Callable[[Method, Settings], Needs]:
    """Return what a retriever searches, and some assets of all corpora."""
    return lambda method, settings: searched(method, settings) | Needs((), common)


def _of_graph(*common: str) -> Callable[[Method, Settings], Needs]:
    per_corpus = ("documents", "chunks/level_1", "tokens", "sentence_graph")
    return lambda method, settings: Needs(per_corpus, ("hop_statistics", *common))


def _weights(retrieval: Retrieval, method: Method) -> list[dict[str, float] | None]:
    """Return what the router gives each granularity, by its name."""
    (family,) = (family for family in families(retrieval.corpora.settings) if family.kind == method.kind)
    rows = router_weights(retrieval, method.kind)
    return [{name: float(weight) for name, weight in zip(family.names, row, strict=True)} for row in rows]


def _nothing(what: str) -> Callable[[dict[str, float] | None], str | None]:
    reason = f"No passage: the router gives every {what} weight 0."
    return lambda weights: reason if weights is not None and not any(weights.values()) else None


def _papers(settings: Settings) -> list[str]:
    """Return what Mix-of-Granularity and AT-RAG compare: levels with equal or learned weights, hops, topics."""
    names = [*(f"fused-paper-{level}" for level in settings.level_range), "mog-paper"]
    hops = [*(f"hop-{hop}" for hop in _hops(settings)), "mogg-uniform", "mogg-paper"]
    topics = [f"{name}+topics" for name in (f"fixed-{min(2, settings.levels)}", "mog-paper", "mogg-paper")]
    return [*(f"{retriever}:{name}" for retriever in RETRIEVERS for name in names), "oracle-paper", *hops, *topics]


_GRAPH, _FAMILY = "best of the sentence graph", "sentence graph"

METHODS.register(
    "mog-paper",
    Kind(
        _routed,
        _with(ROUTERS["mog-paper"]),
        "levels weighted by the router of the paper",
        ("#009E73", "D"),
        retrievers=RETRIEVERS,
        trained=True,
        weights=_weights,
        nothing=_nothing("level"),
    ),
)
METHODS.register(
    "mogg-paper",
    Kind(
        _hops_routed,
        _of_graph(ROUTERS["mogg-paper"]),
        _GRAPH,
        ("#CC79A7", "P"),
        retrievers=("bm25",),
        trained=True,
        instead="mogg-uniform",
        joined=False,
        weights=_weights,
        nothing=_nothing("hop"),
        family=_FAMILY,
        settings=_most_hops,
    ),
)
METHODS.register(
    "fused-paper",
    Kind(_fused, searched, "levels with equal weights", ("#E69F00", "s"), levels, retrievers=RETRIEVERS),
)
METHODS.register(
    "hop",
    Kind(
        _hop,
        _of_graph(),
        _GRAPH,
        ("#56B4E9", "v"),
        _hops,
        retrievers=("bm25",),
        joined=False,
        family=_FAMILY,
        settings=_most_hops,
    ),
)
METHODS.register(
    "mogg-uniform",
    Kind(_uniform, _of_graph(), _GRAPH, retrievers=("bm25",), joined=False, family=_FAMILY, settings=_most_hops),
)
METHODS.register(
    "oracle-paper",
    Kind(
        _labelled,
        _with("soft_labels"),
        "levels weighted by the soft labels: an upper bound",
        ("#555555", "^"),
        retrievers=RETRIEVERS,
        gold=True,
    ),
)
GROUPS.register("papers", _papers)
# Its levels are of one size (Xiong et al. 2024).
METHOD_NAMES.register("medrag", "fixed-2")
