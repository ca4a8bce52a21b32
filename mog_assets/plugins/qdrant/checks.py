"""Checks of collections: before their manifests are written, and by `mog verify`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path

from mog_assets.build.recipe import Check, Work
from mog_assets.build.tools import Tools
from mog_assets.plugins.qdrant.collections import Collections
from mog_assets.plugins.qdrant.ids import IdSet, packed_ids, stored_ids
from mog_assets.plugins.qdrant.store import ASSET, collections_of
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact


def collection_fault(store: Collections, level: int, size: int, corpus: str, ids: Path) -> str | None:
    """What is wrong with the points of a corpus, compared with the ids of its manifest."""
    expected = stored_ids(ids)
    if not store.counts(f"level_{level}").get(corpus):
        if not len(expected):
            return None
        return f"collection level_{level} has no points of corpus {corpus}, expected {len(expected)}: run `mog run`"
    with store.open(f"level_{level}", size) as collection:
        stored = packed_ids(chain.from_iterable(collection.pages(corpus)))
        count = collection.count(corpus)
    missing, more = (int((IdSet(a).find(b) < 0).sum()) for a, b in ((stored, expected), (expected, stored)))
    if not missing and not more and count == len(expected):
        return None
    # A run detects a wrong count; points replaced one for one were changed by another program.
    remedy = "" if count != len(expected) else f"delete the collection (`qdrant/level_{level}` of the home folder) and "
    return (
        f"collection level_{level} has {count} points of corpus {corpus}, expected {len(expected)} "
        f"({missing} missing, {more} too many): {remedy}run `mog run`"
    )


def counts_hold(level: int) -> Callable[[Tools, Artefact], bool]:
    """Whether a level's collection has as many points of the artefact's corpus as its manifest says."""

    def intact(tools: Tools, artefact: Artefact) -> bool:
        try:
            counts = collections_of(tools).counts(f"level_{level}")
        except MogError:
            # Damaged (and now discarded) or not reachable: a build repairs it, or reports what is wrong.
            return False
        return counts.get(str(artefact.manifest.partition), 0) == artefact.manifest.counts["points"]

    return intact


def qdrant_holds(level: int) -> Check:
    """Qdrant has the points of the manifest and no others."""

    def run(work: Work) -> str | None:
        return collection_fault(
            collections_of(work.tools), level, work.info["size"], str(work.corpus), work.draft.path("ids.npy")
        )

    return Check("qdrant_count", "Qdrant has exactly the points of this corpus that the manifest names.", run)


def faults(tools: Tools, corpora: Collection[str]) -> Iterator[str]:
    """Tell what is wrong with the points of the artefacts, and which there are of other corpora, a sentence each.

    Args:
        tools: The resources.
        corpora: Those whose points are in the graph, or will be removed by a run.
    """
    store, collections = tools.store, collections_of(tools)
    for level in tools.settings.level_range:
        key = f"{ASSET}/level_{level}"
        for corpus in tools.settings.corpora:
            artefact = store.find(key, corpus)
            if artefact is not None and store.damage(key, corpus) is None:
                size, ids = artefact.manifest.info["size"], artefact.path("ids.npy")
                try:
                    fault = collection_fault(collections, level, size, corpus, ids)
                except MogError as error:
                    fault = str(error)
                yield from [fault] if fault else []
    for level in tools.settings.level_range:
        try:
            counts = collections.counts(f"level_{level}")
        except MogError as error:
            yield str(error)
            continue
        for corpus in sorted(counts.keys() - set(corpora)):
            yield (
                f"collection level_{level} holds {counts[corpus]} points of corpus {corpus}, which is not in mog.yaml: "
                f"delete the collection (`qdrant/level_{level}` of the home folder) and run `mog run`"
            )
