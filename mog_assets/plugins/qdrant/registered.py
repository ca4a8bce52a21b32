"""Qdrant as a vector store of the graph."""

from __future__ import annotations

from collections.abc import Iterable

from mog_assets import registry
from mog_assets.build.demand import Demand, Needs
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.index.vector_stores import VectorStore
from mog_assets.plugins.qdrant.candidates import QdrantCandidates
from mog_assets.plugins.qdrant.checks import faults
from mog_assets.plugins.qdrant.findings import findings
from mog_assets.plugins.qdrant.store import ASSET, NAME, collections_of, is_used, name_of


def _demand(settings: Settings) -> Demand:
    """Have collections built with what searches need, and read where people ask: what is measured does without."""
    own = Needs((ASSET,) if is_used(settings) else ())
    return Demand(search=own, optional=own)


def _forget(tools: Tools, corpora: Iterable[str]) -> dict[str, float]:
    """See `VectorStore.forget`."""
    collections, deleted = collections_of(tools), 0
    for name in map(name_of, corpora):
        deleted += collections.count(name)
        collections.drop(name)
    return {"points deleted": deleted}


registry.DEMANDS.register(NAME, _demand)
registry.VECTOR_STORES.register(
    NAME,
    VectorStore(
        is_used,
        ASSET,
        QdrantCandidates,
        forget=_forget,
        faults=faults,
        findings=findings,
        packages=("qdrant-client", "qdrant-edge-py"),
    ),
)
