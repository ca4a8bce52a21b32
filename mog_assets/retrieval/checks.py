"""Checks of a collection before its manifest is written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

from mog_assets.recipe import Check, Work
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact
from mog_assets.resources.vector_store import VectorStore
from mog_assets.retrieval.points import IdSet, packed_ids, stored_ids
from mog_assets.tools import Tools


def collection_fault(store: VectorStore, level: int, size: int, corpus: str, ids: Path) -> str | None:
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
            counts = tools.qdrant.counts(f"level_{level}")
        except MogError:
            # Damaged (and now discarded) or not reachable: a build repairs it, or reports what is wrong.
            return False
        return counts.get(str(artefact.manifest.partition), 0) == artefact.manifest.counts["points"]

    return intact


def qdrant_holds(level: int) -> Check:
    """Qdrant has the points of the manifest and no others."""

    def run(work: Work) -> str | None:
        return collection_fault(
            work.tools.qdrant, level, work.info["size"], str(work.corpus), work.draft.path("ids.npy")
        )

    return Check("qdrant_count", "Qdrant has exactly the points of this corpus that the manifest names.", run)
