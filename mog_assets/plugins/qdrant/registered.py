"""Qdrant as a vector store of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mog_assets import registry
from mog_assets.build.demand import Demand, Needs
from mog_assets.build.recipe import Work
from mog_assets.config import Settings
from mog_assets.index.points import read_payloads
from mog_assets.index.vector_stores import VectorStore
from mog_assets.plugins.qdrant.checks import faults
from mog_assets.plugins.qdrant.findings import findings
from mog_assets.plugins.qdrant.nearest import nearest
from mog_assets.plugins.qdrant.payloads import with_payload
from mog_assets.plugins.qdrant.store import ASSET, NAME, collections_of, is_used
from mog_assets.resources.store import Store


def _forget(work: Work, gone: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """See `VectorStore.forget`."""
    keys = ((asset, corpus) for corpus, assets in gone.items() for asset in assets if asset.startswith(f"{ASSET}/"))
    return {"points deleted": sum(_remove_points(work, asset, corpus) for asset, corpus in keys)}


def _remove_points(work: Work, asset: str, corpus: str) -> int:
    store, level = work.tools.store, asset.rsplit("_", 1)[1]
    # An interrupted first upsert leaves points without a manifest: take the size from the vectors of any corpus.
    stored = (store.find(f"embeddings/level_{level}", c) for c in (corpus, *work.settings.corpora))
    sizes = (vectors.manifest.counts.get("size") for vectors in stored if vectors is not None)
    size = next((int(size) for size in sizes if size is not None), None)
    if size is None:
        return 0
    with collections_of(work.tools).open(f"level_{level}", size) as collection:
        ids = sorted(collection.ids(corpus))
        collection.delete(ids)
    return len(ids)


def _facts(settings: Settings, corpus: str) -> dict[str, Any]:
    """Count the documents whose metadata points cannot hold."""
    stored = Store(settings.home).read("documents", corpus)
    left_out = (bool(of.left_out) for name in stored.names("bucket") for of in read_payloads(stored.path(name)))
    return {"with metadata left out of Qdrant": sum(left_out)}


def _demand(settings: Settings) -> Demand:
    """Have collections built with what searches need; what is measured is the same without them."""
    levels = settings.level_range if is_used(settings) else ()
    return Demand(search=Needs(tuple(f"{ASSET}/level_{level}" for level in levels)))


registry.DEMANDS.register(NAME, _demand)
registry.VECTOR_STORES.register(
    NAME,
    VectorStore(
        is_used,
        ASSET,
        nearest,
        with_payload=with_payload,
        forget=_forget,
        faults=faults,
        facts=_facts,
        findings=findings,
        packages=("qdrant-client", "qdrant-edge-py"),
    ),
)
