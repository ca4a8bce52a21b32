"""Assets `collections/level_j`: the points of a corpus in the collections of Qdrant."""

from __future__ import annotations

import hashlib
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.index.assets import GROUP
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.points import payloads, point_ids, read_payloads
from mog_assets.index.vectors import vector_buckets, vector_keys
from mog_assets.plugins.qdrant import checks
from mog_assets.plugins.qdrant.collections import UPSERT_BATCH
from mog_assets.plugins.qdrant.ids import IdSet, packed_ids, unpacked_ids
from mog_assets.plugins.qdrant.store import ASSET, collections_of, vectors_of
from mog_assets.registry import RECIPES
from mog_assets.resources.arrays import save_array


def build_collection(level: int, work: Work) -> None:
    """Synchronise the points of a corpus in a level's collection with its chunks; only changed points are written.

    One bucket is in memory at a time, and 16 bytes for each point.
    """
    corpus = str(work.corpus)
    documents, embeddings = work.input("documents"), work.input(f"embeddings/level_{level}")
    buckets = vector_buckets(work.input, level)
    size, store = int(embeddings.manifest.counts["size"]), collections_of(work.tools)
    upserted = left_out = 0

    def changing() -> None:
        # If this run is interrupted and its cause undone, the previous manifest would be valid again, without its
        # points.
        if work.draft.previous:
            work.tools.store.doubt(work.draft.previous)

    store.prepare(f"level_{level}", size)
    with store.open(f"level_{level}", size) as collection:
        stored = packed_ids(chain.from_iterable(collection.pages(corpus)))
        present, wanted = IdSet(stored), []
        with work.progress(len(buckets), "buckets compared with points") as advance:
            for name, bucket in zip(documents.names("bucket"), buckets, strict=True):
                layout = bucket_layout(Path(bucket.documents), Path(bucket.spans))
                vectors = bucket.open()
                of_documents = read_payloads(documents.path(name))
                left_out += sum(bool(of_document.left_out) for of_document in of_documents)
                points = payloads(corpus, layout, level, of_documents)
                ids = point_ids(points, map(np.asarray, vectors))
                wanted.append(packed_ids(ids))
                new = np.flatnonzero(present.find(wanted[-1]) < 0)
                if len(new) and not upserted:
                    changing()
                for first in range(0, len(new), UPSERT_BATCH):
                    rows = new[first : first + UPSERT_BATCH]
                    collection.upsert([ids[i] for i in rows], vectors[rows], [points[i] for i in rows])
                upserted += len(new)
                advance(1)
        every = np.concatenate([np.zeros((0, 2), np.uint64), *wanted])
        gone = stored[IdSet(every).find(stored) < 0]
        if len(gone) and not upserted:
            changing()
        for first in range(0, len(gone), UPSERT_BATCH):
            collection.delete(unpacked_ids(gone[first : first + UPSERT_BATCH]))
    _finish_collection(work, level, every, size)
    work.info["content"] = embeddings.manifest.version
    work.counts["documents with metadata left out"] = left_out
    work.recomputed |= {"points upserted": upserted, "points deleted": len(gone)}


def _finish_collection(work: Work, level: int, ids: np.ndarray, size: int) -> None:
    """`ids` are packed, in order of the chunks."""
    flat = ids.astype(">u8").view(np.uint8).reshape(len(ids), 16)
    path, exists = work.file("ids.npy", hashlib.sha256(flat.tobytes()).hexdigest())
    if not exists:
        with work.writing(path) as temporary:
            save_array(temporary, flat)
    work.info["size"] = size
    work.counts["points"] = len(ids)
    work.shown["place"] = f"collection `level_{level}`, {collections_of(work.tools).place}"


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of the collections."""
    return [
        Recipe(
            key=f"{ASSET}/level_{level}",
            build=partial(build_collection, level),
            description=f"Qdrant collection of level {level}; corpus is the tenant index.",
            group=GROUP,
            deps=tuple(dict.fromkeys(("documents", "chunks/level_1", f"chunks/level_{level}", *vector_keys(level)))),
            settings=lambda tools: [collections_of(tools).place, vectors_of(tools.settings)],
            checks=(checks.qdrant_holds(level),),
            version="6",
            intact=checks.counts_hold(level),
            kinds=("qdrant",),
        )
        for level in settings.level_range
    ]


RECIPES.register(ASSET, recipes)
