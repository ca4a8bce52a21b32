"""Checks of collections: before their manifests are written, and by `mog verify`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from mog_assets.build.recipe import Check, Work
from mog_assets.build.tools import Tools
from mog_assets.plugins.qdrant.collections import Collections
from mog_assets.plugins.qdrant.ids import IdSet, packed_ids, stored_ids
from mog_assets.plugins.qdrant.store import ASSET, PREFIX, collections_of, is_used, name_of
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact


def collection_fault(store: Collections, name: str, size: int, ids: Path) -> str | None:
    """Return what is wrong with the points of a collection, compared with the ids of its manifest."""
    expected = stored_ids(ids)
    if not store.count(name):
        return f"collection {name} has no points, expected {len(expected)}: run `mog run`" if len(expected) else None
    with store.open(name, size) as collection:
        stored = packed_ids(chain.from_iterable(collection.pages()))
    missing, more = (int((IdSet(a).find(b) < 0).sum()) for a, b in ((stored, expected), (expected, stored)))
    if not missing and not more:
        return None
    # A run detects a wrong count; points replaced one for one were changed by another program.
    remedy = "" if len(stored) != len(expected) else f"{_deletion(name)} and "
    return (
        f"collection {name} has {len(stored)} points, expected {len(expected)} "
        f"({missing} missing, {more} too many): {remedy}run `mog run`"
    )


def _deletion(name: str) -> str:
    return f"delete the collection (`qdrant/{name}` of the home folder)"


def count_holds(tools: Tools, artefact: Artefact) -> bool:
    """Return whether a corpus' collection has as many points as the artefact's manifest says."""
    try:
        count = collections_of(tools).count(name_of(str(artefact.manifest.partition)))
    except MogError:
        # Damaged (and now discarded) or not reachable: a build repairs it, or reports what is wrong.
        return False
    return count == artefact.manifest.counts["points"]


def _holds(work: Work) -> str | None:
    name = name_of(str(work.corpus))
    return collection_fault(collections_of(work.tools), name, work.info["size"], work.draft.path("ids.npy"))


QDRANT_HOLDS = Check("qdrant_count", "Qdrant has exactly the points of this corpus that the manifest names.", _holds)


def faults(tools: Tools, corpora: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the points of the artefacts, and which are of other corpora, a sentence each.

    Args:
        tools: The resources.
        corpora: Those whose points are in the graph, or will be removed by a run.
    """
    store, collections = tools.store, collections_of(tools)
    for corpus in tools.settings.corpora:
        artefact = store.find(ASSET, corpus)
        if artefact is not None and store.damage(ASSET, corpus) is None:
            size, ids = artefact.manifest.info["size"], artefact.path("ids.npy")
            try:
                fault = collection_fault(collections, name_of(corpus), size, ids)
            except MogError as error:
                fault = str(error)
            yield from [fault] if fault else []
    if not is_used(tools.settings):
        return
    try:
        names = collections.names()
    except MogError as error:
        yield str(error)
        return
    for name in sorted({name for name in names if name.startswith(PREFIX)} - set(map(name_of, corpora))):
        yield (
            f"collection {name} is of corpus {name.removeprefix(PREFIX)}, which is not in mog.yaml: {_deletion(name)}"
        )
