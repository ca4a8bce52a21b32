"""Assets of the retrieval stage: `tokens`, `bm25/level_j`, `embeddings/level_j`, `collections/level_j`."""

from __future__ import annotations

import uuid
from functools import partial

import numpy as np
from scipy import sparse

from mog_assets.arrays import save_array
from mog_assets.chunking.chunks import Layout
from mog_assets.chunking.encoding import encode_buckets
from mog_assets.chunking.layouts import bucket_layout, join_layouts, open_layout
from mog_assets.config import Settings
from mog_assets.recipe import Recipe, Work
from mog_assets.retrieval import checks
from mog_assets.retrieval.bm25 import load_terms, save_counts, save_terms
from mog_assets.retrieval.tokens import TOKENIZER, assemble, level_counts
from mog_assets.retrieval.vectors import VectorTable, bucket_texts, payloads, point_ids, told_of_documents
from resources.store import digest

GROUP = "retrieval"


def build_tokens(work: Work) -> None:
    """Tokenise every document once."""
    documents, chunks = work.input("documents"), work.input("chunks/level_1")
    names = documents.names("bucket")
    layouts = [bucket_layout(documents.path(n), chunks.path(n)) for n in names]
    jobs = {n: {"documents": str(documents.path(n)), "spans": str(chunks.path(n))} for n in names}
    # The file of the spans identifies the texts that they were cut from.
    keys = {n: [chunks.manifest.files[n]["sha256"], TOKENIZER] for n in names}
    tokenised = sum(work.map("mog_assets.retrieval.tokens:count_bucket", jobs, keys, "buckets tokenised", reuse=True))
    total = sum(len(layout.documents) for layout in layouts)
    work.recomputed |= {"documents tokenised": tokenised, "documents skipped": total - tokenised}
    found = assemble([work.draft.path(n) for n in names], layouts)
    buckets = [work.draft.files[n] for n in names]
    path, there = work.file("terms.parquet", buckets)
    if not there:
        with work.writing(path) as temporary:
            save_terms(found["terms"], temporary)
    for name in ("chunks", "titles"):
        path, there = work.file(f"{name}.npz", buckets)
        if not there:
            with work.writing(path) as temporary, temporary.open("wb") as stream:
                sparse.save_npz(stream, found[name], compressed=False)
    work.counts |= {"terms": len(found["terms"]), "tokens": int(found["chunks"].sum())}
    totals = np.asarray(found["chunks"].sum(axis=0)).ravel()
    frequent = np.argsort(-totals)[:15]
    work.show_table("frequent terms", [{"term": found["terms"][i], "occurrences": int(totals[i])} for i in frequent])


def build_bm25(level: int, work: Work) -> None:
    """Sum the counts of one tokenisation over the chunks of a level."""
    tokens = work.input("tokens")
    layout = open_layout(str(work.corpus), work.input("documents"), work.input("chunks/level_1"))
    chunks, titles = (sparse.load_npz(tokens.path(f"{name}.npz")) for name in ("chunks", "titles"))
    counts = level_counts(chunks, titles, layout, level)
    path, there = work.file("counts.safetensors", tokens.manifest.version, level)
    if not there:
        with work.writing(path) as temporary:
            save_counts(counts, temporary)
        work.recomputed["chunks counted"] = counts.shape[0]
    work.counts |= {
        "chunks": counts.shape[0],
        "terms": counts.shape[1],
        "entries": counts.nnz,
        "mean tokens": round(float(counts.sum() / counts.shape[0]), 1),
    }
    frequency = np.diff(counts.indptr)
    terms = load_terms(tokens.path("terms.parquet"))
    common = np.argsort(-frequency)[:10]
    work.show_table("terms in most chunks", [{"term": terms[i], "chunks": int(frequency[i])} for i in common])


def build_encoded(level: int, work: Work) -> None:
    """Encode every chunk of a level."""
    documents, chunks = work.input("documents"), work.input("chunks/level_1")
    # The file of the spans identifies the texts that they were cut from.
    keys = {name: [chunks.manifest.files[name]["sha256"], level] for name in documents.names("bucket")}

    def layout(name: str) -> Layout:
        return bucket_layout(documents.path(name), chunks.path(name))

    encode_buckets(
        work,
        keys,
        lambda name: layout(name).count(level),
        lambda name: bucket_texts(documents.path(name), layout(name), level),
    )
    _finish_vectors(work, "encoded")


def build_pooled(level: int, work: Work) -> None:
    """Pool the level-1 vectors that every chunk of a level covers."""
    documents, chunks = work.input("documents"), work.input("chunks/level_1")
    finest = work.input("embeddings/level_1")
    jobs, keys = {}, {}
    for name in documents.names("bucket"):
        vectors = name.replace(".parquet", ".npy")
        paths = {"documents": str(documents.path(name)), "spans": str(chunks.path(name))}
        jobs[vectors] = {**paths, "finer": str(finest.path(vectors)), "level": level}
        keys[vectors] = [finest.manifest.files[vectors]["sha256"], chunks.manifest.files[name]["sha256"], level]
    pooled = work.map("mog_assets.retrieval.vectors:pool_bucket", jobs, keys, "buckets pooled")
    work.recomputed["vectors pooled"] = sum(pooled)
    _finish_vectors(work, "pooled", finest.manifest.info["made by"])


def _finish_vectors(work: Work, *made_by: str) -> None:
    table = VectorTable([work.draft.path(n) for n in sorted(work.draft.files)])
    work.counts |= {"vectors": len(table), "size": table.size}
    fingerprint = work.tools.encoder.fingerprint
    work.info |= {"encoder": fingerprint, "made by": digest(work.recipe.version, fingerprint, *made_by)[:16]}


def build_collection(level: int, work: Work) -> None:
    """Synchronise the points of a corpus in a level's collection with its chunks; only changed points are written."""
    corpus = str(work.corpus)
    documents, chunks = work.input("documents"), work.input("chunks/level_1")
    embeddings = work.input(f"embeddings/level_{level}")
    names = documents.names("bucket")
    parts = [bucket_layout(documents.path(name), chunks.path(name)) for name in names]
    layout = join_layouts(corpus, parts)
    vectors = VectorTable([embeddings.path(n) for n in embeddings.names("bucket")])
    told = [row for name in names for row in told_of_documents(documents.path(name))]
    own = payloads(corpus, layout, level, told)
    ids = point_ids(own, vectors)
    size = int(embeddings.manifest.counts["size"])
    with work.tools.qdrant.open(f"level_{level}", size) as collection:
        held = collection.ids(corpus)
        gone = sorted(held - set(ids))
        new = [i for i, identity in enumerate(ids) if identity not in held]
        # If this run is interrupted and its cause undone, the previous manifest would be valid again, without its
        # points.
        if work.draft.previous and (gone or new):
            work.tools.store.doubt(work.draft.previous)
        with work.progress(len(new), "points upserted") as advance:
            collection.delete(gone)
            for first in range(0, len(new), 1000):
                rows = np.asarray(new[first : first + 1000])
                collection.upsert([ids[i] for i in rows], vectors.rows(rows), [own[i] for i in rows])
                advance(len(rows))
    _finish_collection(work, level, ids, size)
    work.info["content"] = embeddings.manifest.version
    work.recomputed |= {"points upserted": len(new), "points deleted": len(gone)}


def _finish_collection(work: Work, level: int, ids: list[str], size: int) -> None:
    path, there = work.file("ids.npy", ids)
    if not there:
        with work.writing(path) as temporary:
            flat = np.frombuffer(b"".join(uuid.UUID(i).bytes for i in ids), np.uint8)
            save_array(temporary, flat.reshape(len(ids), 16))
    work.info["size"] = size
    work.counts["points"] = len(ids)
    work.shown["place"] = f"collection `level_{level}`, {work.tools.qdrant.place}"


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage."""
    found = [
        Recipe(
            key="tokens",
            build=build_tokens,
            description="Term counts of every level-1 chunk and title, shared by all BM25 indexes.",
            group=GROUP,
            deps=("documents", "chunks/level_1"),
            settings=lambda tools: TOKENIZER,
            version="3",
            kinds=("parquet",),
        )
    ]
    for level in settings.level_range:
        found.append(
            Recipe(
                key=f"bm25/level_{level}",
                build=partial(build_bm25, level),
                description=f"BM25 term counts of 'title + text' of every chunk of level {level}.",
                group=GROUP,
                deps=_unique("documents", "chunks/level_1", f"chunks/level_{level}", "tokens"),
                kinds=("numpy",),
            )
        )
        encoded = level == 1 or settings.encoder.levels == "direct"
        found.append(
            Recipe(
                key=f"embeddings/level_{level}",
                build=partial(build_encoded if encoded else build_pooled, level),
                description=f"Unit vectors of the chunks of level {level}, "
                + ("encoded." if encoded else "pooled from level 1, weighted by length."),
                group=GROUP,
                deps=_unique(
                    "documents",
                    "chunks/level_1",
                    f"chunks/level_{level}",
                    *(() if encoded else ("embeddings/level_1",)),
                ),
                settings=lambda tools: tools.encoder.identity,
                version="2",
                kinds=("pytorch",) if encoded else ("numpy",),
                pool="gpu" if encoded else None,
            )
        )
        found.append(
            Recipe(
                key=f"collections/level_{level}",
                build=partial(build_collection, level),
                description=f"Qdrant collection of level {level}; corpus is the tenant index.",
                group=GROUP,
                deps=_unique(
                    "documents",
                    "chunks/level_1",
                    f"chunks/level_{level}",
                    f"embeddings/level_{level}",
                ),
                settings=lambda tools: tools.qdrant.place,
                checks=(checks.qdrant_holds(level),),
                version="4",
                intact=checks.counts_hold(level),
                kinds=("qdrant",),
            )
        )
    return found


def _unique(*keys: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(keys))
