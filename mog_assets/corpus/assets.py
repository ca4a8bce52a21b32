"""Assets of the corpus stage: `documents`, `chunks/level_j`, `questions`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mog_assets.config import Settings
from mog_assets.corpus import checks, plots
from mog_assets.corpus.documents import (
    into_buckets,
    read_corpus,
    source_state,
    write_documents,
    write_quarantine,
)
from mog_assets.corpus.layouts import open_layout
from mog_assets.corpus.questions import (
    KnownDocument,
    read_questions,
    split_counts,
    write_questions,
)
from resources.recipe import Recipe, Work

GROUP = "corpus"


def _source(settings: Settings, corpus: str | None) -> object:
    assert corpus is not None
    return source_state(settings.corpora[corpus].path)


def build_documents(work: Work) -> None:
    """Read, normalise and bucket the documents of a corpus."""
    assert work.corpus is not None
    reading = read_corpus(work.settings.corpora[work.corpus].path)
    buckets = into_buckets(reading.documents, work.settings.buckets)
    for bucket, documents in buckets.items():
        key = [[d.id, d.sha256, d.metadata, d.shifts] for d in documents]
        path, there = work.file(f"bucket_{bucket:04d}.parquet", key)
        if not there:
            with work.writing(path) as temporary:
                write_documents(documents, temporary)
    path, there = work.file("quarantine.parquet", [[q.place, q.id, q.reason] for q in reading.quarantined])
    if not there:
        with work.writing(path) as temporary:
            write_quarantine(reading.quarantined, temporary)
    work.counts |= {
        "documents": len(reading.documents),
        "characters": sum(len(d.text) for d in reading.documents),
        "text bytes": sum(len(d.text.encode()) for d in reading.documents),
        "quarantined": len(reading.quarantined),
    }
    work.recomputed["documents read"] = len(reading.documents)
    sample = [{"id": d.id, "title": d.title, "characters": len(d.text), "text": d.text} for d in reading.documents[:5]]
    work.show_table("sample", sample)
    work.show_table("quarantine", [vars(q) for q in reading.quarantined[:20]])


def build_finest(work: Work) -> None:
    """Split the documents of every bucket into level-1 spans."""
    documents = work.input("documents")
    names = documents.names("bucket")
    options = {"chunker": work.settings.chunker, "finest_chars": work.settings.finest_chars}
    jobs = {name: {"documents": str(documents.path(name)), **options} for name in names}
    keys = {name: [documents.manifest.files[name]["sha256"], options] for name in names}
    split = work.map("mog_assets.corpus.chunks:split_bucket", jobs, keys, "buckets split")
    work.recomputed["documents split"] = sum(split)
    counts, lengths = [], []
    for name in names:
        table = pq.read_table(work.draft.path(name))
        rows = pq.read_metadata(documents.path(name)).num_rows
        counts.append(np.bincount(table["document"].to_numpy(), minlength=rows))
        lengths.append(table["end"].to_numpy() - table["start"].to_numpy())
    _finish_level(work, 1, np.concatenate(counts), np.concatenate(lengths))


def build_coarser(level: int, work: Work) -> None:
    """Pair the chunks of the level below within every document."""
    layout = open_layout(str(work.corpus), work.input("documents"), work.input("chunks/level_1"))
    below = np.load(work.input(f"chunks/level_{level - 1}").path("counts.npy"))
    counts = (below + 1) // 2
    _, start, end = layout.chunk_spans(np.arange(int(counts.sum())), level)
    _finish_level(work, level, counts, end - start)


def _finish_level(work: Work, level: int, counts: np.ndarray, lengths: np.ndarray) -> None:
    path, there = work.file("counts.npy", counts.tolist())
    if not there:
        with work.writing(path) as temporary, temporary.open("wb") as stream:
            np.save(stream, counts.astype(np.int32))
    work.counts |= {
        "chunks": len(lengths),
        "mean characters": round(float(lengths.mean()), 1),
        "longest": int(lengths.max()),
    }
    work.show_plot("length of chunks", plots.length_histogram(lengths, level))


def build_questions(work: Work) -> None:
    """Read the question sets and check their evidence against the documents."""
    problems = []
    for name, question_set in work.settings.question_sets.items():
        known = {corpus: _known_documents(work, corpus) for corpus in question_set.corpora}
        reading = read_questions(question_set.path, known)
        path, there = work.file(f"{name}.parquet", [repr(q) for q in reading.questions])
        if not there:
            with work.writing(path) as temporary:
                write_questions(reading.questions, temporary)
        problems += [{"question set": name, **problem} for problem in reading.problems]
        work.counts |= {
            f"{name}: questions": len(reading.questions),
            f"{name}: passed over": len(reading.problems),
            f"{name}: evidence in other corpora": reading.elsewhere,
        }
        work.counts |= {f"{name}: {split}": n for split, n in split_counts(reading.questions).items()}
        kinds = Counter(q.kind for q in reading.questions).most_common(20)
        work.show_table(f"{name}: kinds", [{"kind": kind, "questions": n} for kind, n in kinds])
        sample = [{"question": q.question, "kind": q.kind, "split": q.split} for q in reading.questions[:5]]
        work.show_table(f"{name}: sample", sample)
    work.recomputed["questions read"] = sum(n for name, n in work.counts.items() if name.endswith(": questions"))
    work.show_table("passed over", problems[:20])
    work.info["problems"] = problems[:1000]


def _known_documents(work: Work, corpus: str) -> dict[str, KnownDocument]:
    documents = work.input("documents", corpus)
    known = {}
    for name in documents.names("bucket"):
        table = pq.read_table(documents.path(name), columns=["id", "characters", "shifts"])
        columns = (table[column].to_pylist() for column in ("id", "characters", "shifts"))
        known.update({i: KnownDocument(characters, shifts) for i, characters, shifts in zip(*columns, strict=True)})
    return known


def _question_sources(settings: Settings, _: str | None) -> object:
    def state(path: Path) -> object:
        return [path.stat().st_size, path.stat().st_mtime_ns] if path.exists() else None

    return {name: state(q.path) for name, q in settings.question_sets.items()}


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage."""
    found = [
        Recipe(
            key="documents",
            build=build_documents,
            description="Documents of a corpus, normalised, in buckets; what could not be used, and why.",
            group=GROUP,
            settings=lambda tools: tools.settings.buckets,
            source=_source,
            kinds=("parquet",),
        ),
        Recipe(
            key="chunks/level_1",
            build=build_finest,
            description="Level-1 spans: whole sentences packed up to the finest size. The only chunks that are stored.",
            group=GROUP,
            deps=("documents",),
            settings=lambda tools: [tools.settings.chunker, tools.settings.finest_chars],
            checks=(checks.SPANS_TILE,),
            kinds=("parquet",),
        ),
    ]
    for level in settings.level_range[1:]:
        found.append(
            Recipe(
                key=f"chunks/level_{level}",
                build=lambda work, level=level: build_coarser(level, work),  # type: ignore[misc]
                description=f"Chunks of level {level}: two adjacent chunks of level {level - 1} of the same document.",
                group=GROUP,
                deps=("documents", "chunks/level_1", f"chunks/level_{level - 1}")
                if level > 2
                else ("documents", "chunks/level_1"),
                checks=(checks.halved(level),),
                kinds=("numpy",),
            )
        )
    if settings.question_sets:
        found.append(
            Recipe(
                key="questions",
                build=build_questions,
                description="Question sets with their gold evidence, checked against the documents.",
                group=GROUP,
                deps=("documents",),
                partitioned=False,
                settings=lambda tools: {
                    name: [str(q.path), q.corpora] for name, q in tools.settings.question_sets.items()
                },
                source=_question_sources,
                kinds=("parquet",),
            )
        )
    return found
