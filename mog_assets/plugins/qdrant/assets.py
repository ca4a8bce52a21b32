"""Asset `qdrant`: the pieces of a corpus as points of a collection, with vectors, words and what is known of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mog_assets.build.demand import demand
from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.index.assets import GROUP
from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import vector_buckets
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.term_counts import open_counts
from mog_assets.plugins.qdrant import checks
from mog_assets.plugins.qdrant.collections import UPSERT_BATCH, Points, Sparse
from mog_assets.plugins.qdrant.ids import IdSet, packed_ids, unpacked_ids
from mog_assets.plugins.qdrant.points import payloads, point_ids
from mog_assets.plugins.qdrant.store import ASSET, collections_of, name_of, vectors_of
from mog_assets.plugins.qdrant.words import rounded_mean, text_vectors
from mog_assets.registry import FIELDS
from mog_assets.resources.files import save_array


def build_collection(work: Work) -> None:
    """Make the points of a corpus those of its pieces; only points that differ are written.

    One bucket is in memory at a time, with the term counts of its shard, and 16 bytes for each point.
    """
    embeddings = work.input("embeddings/level_1")
    size, name = int(embeddings.manifest.counts["size"]), name_of(str(work.corpus))
    store = collections_of(work.tools)
    upserted = 0

    def changing() -> None:
        # If this run is interrupted and its cause undone, the previous manifest would be valid again, without its
        # points.
        if work.draft.previous:
            work.tools.store.doubt(work.draft.previous)

    store.prepare(name, size)
    with store.open(name, size) as collection:
        stored = packed_ids(chain.from_iterable(collection.pages()))
        present, wanted = IdSet(stored), [np.zeros((0, 2), np.uint64)]
        with work.progress(len(embeddings.names("bucket")), "buckets compared with points") as advance:
            for points in _points(work):
                ids = packed_ids(points.ids)
                wanted.append(ids)
                new = np.flatnonzero(present.find(ids) < 0)
                if len(new) and not upserted:
                    changing()
                for first in range(0, len(new), UPSERT_BATCH):
                    collection.upsert(points.at(new[first : first + UPSERT_BATCH]))
                upserted += len(new)
                advance(1)
        every = np.concatenate(wanted)
        gone = stored[IdSet(every).find(stored) < 0]
        if len(gone) and not upserted:
            changing()
        for first in range(0, len(gone), UPSERT_BATCH):
            collection.delete(unpacked_ids(gone[first : first + UPSERT_BATCH]))
    flat = every.astype(">u8").view(np.uint8).reshape(len(every), 16)
    path, exists = work.file("ids.npy", hashlib.sha256(flat.tobytes()).hexdigest())
    if not exists:
        with work.writing(path) as temporary:
            save_array(temporary, flat)
    work.info["size"] = size
    work.counts["points"] = len(every)
    work.shown["place"] = f"collection `{name}`, {store.place}"
    work.recomputed |= {"points upserted": upserted, "points deleted": len(gone)}


def _points(work: Work) -> Iterator[Points]:
    """Yield the points of each bucket, in order."""
    fields, first, words = _fields(work), 0, _words(work)
    for bucket in vector_buckets(work.input, 1):
        layout, vectors = bucket_layout(Path(bucket.documents), Path(bucket.spans)), bucket.open()
        of_bucket = payloads(layout, first, fields)
        sparse_vectors = list(islice(words, len(of_bucket)))
        ids = point_ids(of_bucket, map(np.asarray, vectors), sparse_vectors)
        yield Points(ids, vectors, sparse_vectors, of_bucket)
        first += len(of_bucket)


def _words(work: Work) -> Iterator[Sparse]:
    """Yield the words of every piece as a sparse vector; the counts of one shard are in memory at a time."""
    parts, options = open_counts(work.input("bm25/level_1"), work.input("tokens")), work.settings.bm25
    mean = rounded_mean(np.concatenate([np.zeros(0), *(part.lengths for part in parts)]))
    for part in parts:
        shape = (len(part.lengths), len(part.terms))
        matrix = sparse.csc_matrix((part.counts, part.indices, part.indptr), shape=shape)
        yield from text_vectors(part.terms, matrix, part.lengths, mean, options.k1, options.b)


def _fields(work: Work) -> dict[str, tuple[Sequence[Any], np.ndarray]]:
    """Read what other assets know of the pieces, such as topics."""
    corpora = Corpora.open(work.input, work.settings, [str(work.corpus)])
    fields: dict[str, tuple[Sequence[Any], np.ndarray]] = {}
    for field in {field.asset: field for field in FIELDS.values() if field.asset in work.recipe.deps}.values():
        # In filters of Qdrant, a dot leads into a mapping.
        fields |= {name.replace(".", "_"): values for name, values in field.read(corpora).values.items()}
    return fields


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipe of the collections."""
    built = demand(settings)
    built_keys = (built.methods | built.search).keys
    field_assets = dict.fromkeys(field.asset for field in FIELDS.values() if field.asset in built_keys)
    return [
        Recipe(
            key=ASSET,
            build=build_collection,
            description="Qdrant collection of the pieces: vectors, BM25 as sparse vectors, and where each stands.",
            group=GROUP,
            deps=("documents", "chunks/level_1", "tokens", "bm25/level_1", "embeddings/level_1", *field_assets),
            settings=lambda tools: [
                collections_of(tools).place,
                vectors_of(tools.settings),
                tools.settings.bm25.model_dump(),
            ],
            checks=(checks.QDRANT_HOLDS,),
            intact=checks.count_holds,
            kinds=("qdrant",),
        )
    ]
