"""Cost of retrieval: time per question, and storage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mog_assets.config import RetrieverName, Settings
from mog_assets.index.vector_stores import VECTOR_STORES
from mog_assets.papers.experiments.conclusions import untestable
from mog_assets.papers.experiments.lab import Claim, Experiment, Findings, Lab, registered
from mog_assets.papers.experiments.settings import EXPERIMENT_SETTINGS
from mog_assets.papers.mix_of_granularity import router
from mog_assets.papers.mix_of_granularity.ranker import ROUTERS, level_ranker, router_weights
from mog_assets.resources.store import Artefact
from mog_assets.search.methods import needs, parse

_PAPER_STORAGE = 2.7


def seconds(lab: Lab) -> Findings:
    """Return seconds per question with 1 to n levels, by BM25 and by vectors; router and retrieval timed separately."""
    rows, statements = [], []
    repeats = EXPERIMENT_SETTINGS.of(lab.settings).repeats
    for name in lab.tested():
        table = lab.cached(f"{name} seconds", repeats, lambda name=name: _timed(lab, name))  # type: ignore[misc]
        for retriever, part in table.groupby("retriever", sort=False):
            for row in part.to_dict("records"):
                router_ms = 1000 * (row["encoding"] + row["router"])
                rows.append(
                    {
                        "question set": name,
                        "retriever": retriever,
                        "levels": f"{row['levels']}{'' if row['routed'] else ' without router'}",
                        "encoding the question, ms": round(1000 * row["encoding"], 3),
                        "router, ms": round(1000 * row["router"], 4),
                        "retrieval, ms": round(1000 * row["retrieval"], 3),
                        "all, ms": round(
                            router_ms + 1000 * row["retrieval"] if row["routed"] else 1000 * row["plain"], 3
                        ),
                        "questions": row["questions"],
                    }
                )
            routed = part[part["routed"]]
            total = 1000 * (routed["encoding"] + routed["router"] + routed["retrieval"])
            plain = float(1000 * part.loc[~part["routed"], "plain"].iloc[0])
            statements.append(
                f"{name}, {retriever}: {plain:.2f} ms without router, {total.iloc[0]:.2f} ms with it at 1 level, "
                f"{total.iloc[-1]:.2f} ms at {routed['levels'].iloc[-1]}"
            )
    figures = "; ".join(statements)
    table11 = "Mix-of-Granularity, table 11 and appendix M"
    reader = "The paper times answers, mostly the language model. Retrieval only: "
    return Findings(
        tables={
            f"time of a question (median of {repeats} runs over all test questions together, "
            "after a warm-up; on the machine of the experiment)": rows
        },
        claims=[
            untestable(table11, "The router makes answering about 60 % slower.", reader + figures),
            untestable(table11, "More levels hardly make answering slower.", reader + figures),
        ],
    )


def _timed(lab: Lab, name: str) -> pd.DataFrame:
    """Return seconds per question: a row of each retriever and number of levels, and one of level 1 without router."""
    settings, retrieval = lab.settings, lab.retrieval(name)
    count, repeats = len(retrieval.queries), EXPERIMENT_SETTINGS.of(settings).repeats
    opened = router.open_router(lab.read(ROUTERS["mog-paper"], None), lab.encoder, settings.levels)
    vectors, weights = retrieval.vectors, router_weights(retrieval, "mog-paper")
    steps = 2 * (len(settings.level_range) + 1) * (repeats + 1)
    with lab.progress(steps, "timed") as advance:

        def each(do: Callable[[], object]) -> float:
            return _seconds(do, repeats) / count

        encoding = each(lambda: lab.encode_anew(retrieval.queries))
        choosing = each(lambda: router.predict(opened, vectors))
        rows = []
        names: tuple[RetrieverName, ...] = ("bm25", "dense")
        for retriever in names:
            for levels in (0, *settings.level_range):
                few = settings.model_copy(update={"levels": max(levels, 1)})
                corpora = replace(retrieval.corpora, settings=few)
                method = replace(parse("mog-paper" if levels else "fixed-1", few), retriever=retriever)
                some_weights = np.ascontiguousarray(weights[:, :levels]) if levels else None

                def rank(corpora=corpora, method=method, some_weights=some_weights, retriever=retriever) -> None:  # type: ignore[no-untyped-def]
                    index = replace(retrieval.index, corpora=corpora)
                    anew = replace(retrieval, index=index, given=vectors, _scores={}, limited={})
                    if some_weights is None:
                        anew.rank(method, settings.k)
                    else:
                        level_ranker(anew, retriever).weighted(some_weights)

                spent = each(rank)
                advance(repeats + 1)
                rows.append(
                    {
                        "retriever": retriever,
                        "levels": max(levels, 1),
                        "routed": levels > 0,
                        # Nearest-neighbour search needs the question's vector, with or without a router.
                        "encoding": encoding if levels or retriever == "dense" else 0.0,
                        "router": choosing if levels else 0.0,
                        "retrieval": spent,
                    }
                )
    table = pd.DataFrame(rows).assign(questions=count)
    return table.assign(plain=table["encoding"] + table["retrieval"])


def _seconds(do: Callable[[], object], repeats: int) -> float:
    """Return median seconds of some runs, after one warm-up run."""
    spent = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        do()
        spent.append(time.perf_counter() - started)
    return median(spent[1:])


def storage(lab: Lab) -> Findings:
    """Return bytes of all stored data, relative to the text."""
    settings = lab.settings
    documents = [lab.read("documents", corpus) for corpus in settings.corpora]
    text = sum(_text_bytes(stored.path(name)) for stored in documents for name in stored.names("bucket"))
    rows: list[dict[str, Any]] = []

    def add(what: str, size: int) -> None:
        rows.append({"what": what, "bytes": size, "of the text": f"{size / max(text, 1):.3f}"})

    def of(key: str, what: str) -> int:
        # An unpartitioned asset has one artefact, whatever the corpus.
        partitions = settings.corpora if key in _per_corpus(settings) else (None,)
        size = sum(_files(lab.read(key, corpus)) for corpus in partitions)
        add(what, size)
        return size

    add("text and titles, UTF-8", text)
    of("documents", "documents as stored (compressed, with metadata)")
    of("chunks/level_1", "level-1 spans, from which all levels are derived")
    of("tokens", "term counts by document")
    of("bm25/level_1", "term counts of level 1")
    vectors = sum(of(f"embeddings/level_{level}", f"vectors, level {level}") for level in settings.level_range)
    for name, store in VECTOR_STORES.items():
        if store.used(settings):
            of(store.asset, f"ids of points of {name.capitalize()}")
            # Collections of a server are not on this disk.
            if (folder := settings.home / name).is_dir():
                add(f"collections of {name.capitalize()} (blocks on disk)", allocated(folder.rglob("*")))
    of("sentence_graph", "sentence graph")
    of("hop_statistics", "statistics of the sentence graph")
    add("caches (vectors by text, answers of models; blocks on disk)", allocated((settings.home / "cache").rglob("*")))
    total = text + vectors
    ratio = total / max(text, 1)
    claim = Claim(
        "Mix-of-Granularity, section 4.5",
        f"One copy of the text and a set of vectors for every level take no more than {_PAPER_STORAGE} times the text.",
        "seen" if ratio <= _PAPER_STORAGE else "not seen",
        f"{ratio:.2f} times: {text:,} bytes of text, {vectors:,} bytes of vectors of {settings.levels} levels "
        f"from {settings.finest_chars} characters (counted, not sampled: there is nothing to test). Vectors: "
        f"{_vector_facts(lab)}.",
    )
    return Findings(tables={"bytes": rows}, claims=[claim])


def allocated(paths: Iterable[Path]) -> int:
    """Return bytes that files use on disk: less than the length for a sparse file."""
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())


def _files(stored: Artefact) -> int:
    return sum(int(entry["bytes"]) for entry in cast(Any, stored).manifest.files.values())


def _text_bytes(path: Path) -> int:
    """Return UTF-8 bytes of titles and texts."""
    table = pq.read_table(path, columns=["title", "text"])
    return sum(int(pc.sum(pc.binary_length(table[name])).as_py() or 0) for name in ("title", "text"))


def _vector_facts(lab: Lab) -> str:
    counts = cast(Any, lab.read("embeddings/level_1", next(iter(lab.settings.corpora)))).manifest.counts
    return f"{int(counts['size'])} numbers of 2 bytes each"


def _per_corpus(settings: Settings) -> tuple[str, ...]:
    levels = settings.level_range
    vectors = (f"embeddings/level_{level}" for level in levels)
    stores = (store.asset for store in VECTOR_STORES.values() if store.used(settings))
    return ("documents", "chunks/level_1", "tokens", "bm25/level_1", *vectors, *stores, "sentence_graph")


def _timed_assets(settings: Settings) -> Sequence[str]:
    if not settings.trains:
        return ()
    methods = [parse(name, settings) for name in ("bm25:mog-paper", "dense:mog-paper")]
    return ("questions", *needs(methods, settings).keys)


registered(
    Experiment(
        "time",
        "Time against number of levels",
        "Milliseconds per question with 1 level without router and with 1 to n levels with router, by BM25 and by "
        "vectors, with encoder and router timed separately, without a reader (Mix-of-Granularity, table 11).",
        seconds,
        _timed_assets,
        lambda settings: EXPERIMENT_SETTINGS.of(settings).repeats,
    ),
    Experiment(
        "storage",
        "Storage against size of the text",
        "Bytes of text, spans, counts, vectors, collections, graph and caches (Mix-of-Granularity, section 4.5).",
        storage,
        lambda settings: (*_per_corpus(settings), "hop_statistics"),
    ),
)
