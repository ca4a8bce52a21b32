"""Checks of a collection before its manifest is written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np

from mog_assets.chunking.layouts import bucket_layout
from mog_assets.recipe import Check, Work
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact
from mog_assets.resources.vector_store import VectorStore
from mog_assets.retrieval.points import IdSet, packed_ids, stored_ids
from mog_assets.tools import Tools

# Places in a sentence.
_NAMED = 5


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


def every_text_has_a_vector(level: int) -> Check:
    """An embeddings endpoint gave a vector for every text; the others are named."""

    def run(work: Work) -> str | None:
        missing, documents, chunks = [], work.input("documents"), work.input("chunks/level_1")
        for name in documents.names("bucket") if work.counts["without vector"] else ():
            rows = np.load(work.draft.path(name.replace(".parquet", ".npy")), mmap_mode="r")
            layout = bucket_layout(documents.path(name), chunks.path(name))
            places = zip(*layout.chunk_spans(np.flatnonzero(~rows.any(axis=1)), level), strict=True)
            missing += [f"{layout.documents[document]} ({start}–{end})" for document, start, end in places]
        if not missing:
            return None
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        return (
            f"{len(missing):,} of {int(work.counts['vectors']):,} texts have no vector, because the endpoint gave none "
            f"({', '.join(missing[:_NAMED])}{more}): they are found by their words alone, until their documents change"
        )

    described = "The endpoint gave a vector for every text."
    return Check("every_text_has_a_vector", described, run, blocking=False, repeated=True)


def qdrant_holds(level: int) -> Check:
    """Qdrant has the points of the manifest and no others."""

    def run(work: Work) -> str | None:
        return collection_fault(
            work.tools.qdrant, level, work.info["size"], str(work.corpus), work.draft.path("ids.npy")
        )

    return Check("qdrant_count", "Qdrant has exactly the points of this corpus that the manifest names.", run)
