"""Assets of retrieval: `tokens`, `bm25/level_j`, `embeddings/level_j`, `neighbours`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.build.recipe import Check, Recipe, Work
from mog_assets.config import Settings
from mog_assets.index.encoding import bucket_texts, encode_buckets
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.shards import frequencies_and_totals, largest, shards, total_of_terms
from mog_assets.index.statistics_assets import build_statistics, statistics_settings
from mog_assets.index.term_tables import TermTable
from mog_assets.index.tokens import languages_of
from mog_assets.index.vector_copies import one_copy
from mog_assets.resources.store import digest
from mog_assets.resources.tables import numbers
from mog_assets.text.chunks import Layout
from mog_assets.text.terms import ANALYSIS

# Places in a sentence.
_NAMED = 5


def _every_text_has_a_vector(work: Work) -> str | None:
    missing, documents, chunks = [], work.input("documents"), work.input("chunks/level_1")
    for name in documents.names("bucket") if work.counts["without vector"] else ():
        rows = np.load(work.draft.path(name.replace(".parquet", ".npy")), mmap_mode="r")
        layout = bucket_layout(documents.path(name), chunks.path(name))
        places = zip(*layout.chunk_spans(np.flatnonzero(~rows.any(axis=1)), 1), strict=True)
        missing += [f"{layout.documents[document]} ({start}–{end})" for document, start, end in places]
    if not missing:
        return None
    more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return (
        f"{len(missing):,} of {int(work.counts['vectors']):,} texts have no vector, because the endpoint gave none "
        f"({', '.join(missing[:_NAMED])}{more}): they are found by their words alone, until their documents change"
    )


EVERY_TEXT_HAS_A_VECTOR = Check(
    "every_text_has_a_vector",
    "The endpoint gave a vector for every text.",
    _every_text_has_a_vector,
    blocking=False,
    repeated=True,
)

GROUP = "retrieval"

# Vectors of a corpus from which they have graphs: fewer are compared in 3 ms, and an edit makes no graph.
LINKED = 100_000
# Changed when the same texts and encoder give other vectors: models of vectors are then fitted again.
_VECTORS = "2"


def build_tokens(work: Work) -> None:
    """Tokenise every document once."""
    documents, chunks = work.input("documents"), work.input("chunks/level_1")
    names = documents.names("bucket")
    layouts = {n: bucket_layout(documents.path(n), chunks.path(n)) for n in names}
    jobs = {n: {"documents": str(documents.path(n)), "spans": str(chunks.path(n))} for n in names}
    # The file of the spans identifies the texts that they were cut from.
    keys = {n: [chunks.manifest.files[n]["sha256"], languages_of(documents.path(n)), ANALYSIS] for n in names}
    tokenised = sum(work.map("mog_assets.index.tokens:count_bucket", jobs, keys, "buckets tokenised", reuse=True))
    total = sum(len(layout.documents) for layout in layouts.values())
    work.recomputed |= {"documents tokenised": tokenised, "documents unchanged": total - tokenised}
    groups = shards({n: layout.count(1) for n, layout in layouts.items()}, work.settings.shard_chunks)
    work.info["shards"] = groups
    terms, words, titles, made_of = {}, {}, {}, {}
    for shard, members in groups.items():
        paths = [str(work.draft.path(n)) for n in members]
        made_of[shard] = [work.draft.files[n] for n in members]
        terms[f"terms_{shard}.arrow"] = {"buckets": paths}
        words[f"words_{shard}.arrow"] = {"documents": [str(documents.path(n)) for n in members]}
        titles[f"titles_{shard}.safetensors"] = {
            "buckets": paths,
            "documents": [len(layouts[n].documents) for n in members],
        }
    _of_shards(work, "write_terms", terms, made_of, "vocabularies")
    _of_shards(work, "write_words", words, made_of, "words")
    for shard, job in zip(groups, titles.values(), strict=True):
        job["terms"] = str(work.draft.path(f"terms_{shard}.arrow"))
    _of_shards(work, "write_titles", titles, made_of, "shards of titles")
    tables = [TermTable(work.draft.path(name)) for name in terms]
    totals = total_of_terms([(table, table.column("occurrences")) for table in tables])
    # Words that no document has are compared with others of the same letters.
    work.info["letters"] = "".join(sorted({letter for table in tables for letter in set("".join(table))}))
    work.counts |= {"terms": len(totals), "tokens": int(numbers(totals, "total").sum()), "shards": len(groups)}
    work.show_table("frequent terms", largest(totals, "occurrences", 15))


def build_bm25(work: Work) -> None:
    """Sum the counts of one tokenisation over the chunks of level 1, shard by shard."""
    documents, chunks, tokens = work.input("documents"), work.input("chunks/level_1"), work.input("tokens")
    jobs, made_of = {}, {}
    for shard, names in tokens.manifest.info["shards"].items():
        made_of[shard] = [work.settings.levels, *(tokens.manifest.files[n]["sha256"] for n in names)]
        jobs[f"counts_{shard}.safetensors"] = {
            "buckets": [str(tokens.path(n)) for n in names],
            "documents": [str(documents.path(n)) for n in names],
            "spans": [str(chunks.path(n)) for n in names],
            "terms": str(tokens.path(f"terms_{shard}.arrow")),
            "levels": work.settings.levels,
        }
    work.recomputed["chunks counted"] = sum(_of_shards(work, "count_shard", jobs, made_of, "shards counted"))
    sums, parts = np.zeros(3, np.int64), []
    for shard in made_of:
        frequencies, chunks_of_it, tokens_of_it = frequencies_and_totals(
            work.draft.path(f"counts_{shard}.safetensors"), 1
        )
        sums += [chunks_of_it, frequencies.sum(), tokens_of_it]
        parts.append((TermTable(tokens.path(f"terms_{shard}.arrow")), frequencies))
    count, entries, total = sums.tolist()
    work.counts |= {
        "chunks": count,
        "terms": tokens.manifest.counts["terms"],
        "entries": entries,
        "mean tokens": round(total / count, 1),
    }
    work.show_table("terms in most chunks", largest(total_of_terms(parts), "chunks", 10))


def _of_shards(work: Work, target: str, jobs: dict[str, Any], made_of: dict[str, Any], what: str) -> list[int]:
    """Make a file per shard, in the order of `made_of`, which tells what each is made of."""
    keys = dict(zip(jobs, made_of.values(), strict=True))
    return work.map(f"mog_assets.index.shards:{target}", jobs, keys, what)


def build_encoded(work: Work) -> None:
    """Encode every chunk of level 1."""
    documents, chunks = work.input("documents"), work.input("chunks/level_1")
    # The file of the spans identifies the texts that they were cut from.
    keys = {name: [chunks.manifest.files[name]["sha256"], 1] for name in documents.names("bucket")}

    def layout(name: str) -> Layout:
        return bucket_layout(documents.path(name), chunks.path(name))

    def texts(name: str) -> list[str]:
        return bucket_texts(documents.path(name), layout(name), 1)

    with one_copy(work, keys, texts):
        encode_buckets(work, keys, lambda name: layout(name).count(1), texts)
    vectors = [np.load(path, mmap_mode="r") for path in _buckets(work)]
    if work.tools.encoder.settings.served:
        work.counts["without vector"] = sum(int((~rows.any(axis=1)).sum()) for rows in vectors)
    _finish_vectors(work, sum(map(len, vectors)), vectors[0].shape[1], "encoded")


def build_pooled(level: int, work: Work) -> None:
    """Write what vectors of a level need besides those of level 1: the lengths that their sums are divided by."""
    documents, chunks = work.input("documents"), work.input("chunks/level_1")
    finest = work.input("embeddings/level_1")
    jobs, keys = {}, {}
    for name in documents.names("bucket"):
        vectors = name.replace(".parquet", ".npy")
        paths = {"documents": str(documents.path(name)), "spans": str(chunks.path(name))}
        jobs[vectors] = {**paths, "finer": str(finest.path(vectors)), "level": level}
        keys[vectors] = [finest.manifest.files[vectors]["sha256"], chunks.manifest.files[name]["sha256"], level]
    pooled = work.map("mog_assets.index.encoding:pool_bucket", jobs, keys, "buckets pooled")
    work.recomputed["vectors pooled"] = sum(pooled)
    # The files alone do not tell all of the vectors.
    work.info["content"] = digest(keys)
    count = sum(len(np.load(path, mmap_mode="r")) for path in _buckets(work))
    _finish_vectors(work, count, int(finest.manifest.counts["size"]), "pooled", finest.manifest.info["made by"])


def _buckets(work: Work) -> list[Path]:
    """Return the files of the draft, one for each bucket."""
    return [work.draft.path(name) for name in sorted(work.draft.files) if name.startswith("bucket")]


def _finish_vectors(work: Work, count: int, size: int, *made_by: str) -> None:
    work.counts |= {"vectors": count, "size": size}
    fingerprint = work.tools.encoder.fingerprint
    work.info |= {"encoder": fingerprint, "made by": digest(_VECTORS, fingerprint, *made_by)[:16]}


def build_neighbours(work: Work) -> None:
    """Round the vectors of level 1, shard by shard, or make graphs of them where there are many."""
    tokens, finest = work.input("tokens"), work.input("embeddings/level_1")
    vectors, jobs, made_of = int(finest.manifest.counts["vectors"]), {}, {}
    target, form = ("write_graph", "graph_{}.usearch") if vectors >= LINKED else ("write_rounded", "rounded_{}.npy")
    for shard, names in tokens.manifest.info["shards"].items():
        files = [name.replace(".parquet", ".npy") for name in names]
        jobs[form.format(shard)] = {"vectors": [str(finest.path(name)) for name in files]}
        made_of[form.format(shard)] = [finest.manifest.files[name]["sha256"] for name in files]
    added = work.map(f"mog_assets.index.encoding:{target}", jobs, made_of, "shards")
    work.recomputed["vectors added"] = sum(added)
    work.counts |= {"vectors": vectors, "graphs": len(jobs) if vectors >= LINKED else 0}


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage."""
    return [
        Recipe(
            key="tokens",
            build=build_tokens,
            description="Term counts of every level-1 chunk and title, shared by all BM25 indexes.",
            group=GROUP,
            deps=("documents", "chunks/level_1"),
            settings=lambda tools: [ANALYSIS, tools.settings.shard_chunks],
            version="6",
            kinds=("parquet", "arrow"),
        ),
        Recipe(
            key="statistics",
            build=build_statistics,
            description="Document frequencies and lengths that weigh terms.",
            group=GROUP,
            deps=("documents", "chunks/level_1", "tokens", "bm25/level_1"),
            partitioned=False,
            settings=statistics_settings,
            version="4",
            kinds=("arrow",),
        ),
        Recipe(
            key="neighbours",
            build=build_neighbours,
            description="What leads to near vectors: these, rounded to bytes; of large corpora graphs (HNSW).",
            group=GROUP,
            deps=("tokens", "embeddings/level_1"),
            version="2",
            kinds=("numpy",),
        ),
        Recipe(
            key="bm25/level_1",
            build=build_bm25,
            description="BM25 term counts of 'title + text' of every chunk of level 1; and what weighs terms.",
            group=GROUP,
            deps=("documents", "chunks/level_1", "tokens"),
            settings=lambda tools: tools.settings.levels,
            version="3",
            kinds=("numpy",),
        ),
        Recipe(
            key="embeddings/level_1",
            build=build_encoded,
            description="Unit vectors of the chunks of level 1, encoded.",
            group=GROUP,
            deps=("documents", "chunks/level_1"),
            settings=lambda tools: tools.encoder.identity,
            checks=(EVERY_TEXT_HAS_A_VECTOR,) if settings.encoder.served else (),
            version="3",
            kinds=("pytorch",),
            pool="gpu",
        ),
        *(
            Recipe(
                key=f"embeddings/level_{level}",
                build=partial(build_pooled, level),
                description=f"Lengths of the sums that vectors of level {level} are pooled from; their pieces are "
                "level 1's.",
                group=GROUP,
                deps=("documents", "chunks/level_1", f"chunks/level_{level}", "embeddings/level_1"),
                settings=lambda tools: tools.encoder.identity,
                version="3",
                kinds=("numpy",),
            )
            for level in settings.level_range[1:]
        ),
    ]
