"""The asset `documents`."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq

from mog_assets.build.recipe import SOURCES, Recipe, Work
from mog_assets.config import CorpusSettings, Settings
from mog_assets.documents.documents import (
    LAYOUT,
    READER,
    NormalisedDocument,
    Skipped,
    into_buckets,
    load_documents,
    notes_of,
    write_documents,
    write_skipped,
)
from mog_assets.documents.folders import kinds
from mog_assets.documents.formats import kinds as formats
from mog_assets.documents.memory import load_memory, source_state
from mog_assets.documents.reading import CorpusReading, read_corpus
from mog_assets.documents.sources import listed, synchronised
from mog_assets.documents.worker import Limits
from mog_assets.resources.printable import printable
from mog_assets.resources.store import digest
from mog_assets.text.languages import AUTO, detected, name_of

GROUP = "corpus"
# The result of reading also depends on these.
_PACKAGES = (
    "chardet",
    "lxml",
    "py3langid",
    "pypdfium2",
    "python-calamine",
    "PyYAML",
)
_LIBRARIES = [unicodedata.unidata_version, *map(version, _PACKAGES)]


def _source(settings: Settings, corpus: str | None) -> object:
    assert corpus is not None
    source = settings.corpora[corpus]
    return [
        source_state(source.path, source.max_document_bytes, _questions(settings), contents_file(settings, corpus))
        if source.source is None
        else [
            source.source,
            {name: item.version or item.refusal for name, item in listed(corpus, source.source).items()},
        ],
        source.max_document_bytes,
        source.language,
        *_limits(source),
        *formats.versions(),
    ]


def contents_file(settings: Settings, corpus: str) -> Path:
    """Return the file of the hashes of the files of a corpus."""
    return settings.home / "cache" / f"contents-{corpus}.json"


def _questions(settings: Settings) -> frozenset[str]:
    """Return real paths of the files of questions, which may lie among the documents."""
    return frozenset(os.path.realpath(q.path) for q in settings.question_sets.values() if q.path is not None)


def _limits(source: CorpusSettings) -> Limits:
    unpacked, memory = int(source.max_unpacked_mb * 1e6), int(source.max_memory_mb * 1e6)
    return Limits(
        source.max_seconds, memory, unpacked, source.reader, source.encoding or "", tuple(source.columns.items())
    )


def build_documents(work: Work) -> None:
    """Read, normalise and bucket the documents of a corpus; unchanged ones are copied from the previous artefact."""
    assert work.corpus is not None
    source = work.settings.corpora[work.corpus]
    remembered = work.settings.home / "cache" / f"reading-{work.corpus}.parquet"
    limits = _limits(source)
    signature = digest(READER, source.max_document_bytes, *limits, *_LIBRARIES, *formats.versions())
    memory, refused = load_memory(remembered, signature), dict[str, str]()
    if source.source is not None:
        copied = synchronised(work.corpus, source.source, source.path)
        work.recomputed["items copied"], refused = copied.read, copied.refused
    while True:
        questions = _questions(work.settings) if source.source is None else frozenset[str]()
        reading = read_corpus(source.path, source.max_document_bytes, memory, remembered.parent, limits, questions)
        work.draft.files.clear()
        lost: set[str] = set()
        # One bucket's texts are in memory at a time.
        for bucket, outcomes in into_buckets(reading.used, work.settings.buckets).items():
            name = f"bucket_{bucket:04d}.parquet"
            path, exists = work.file(name, source.language, [outcome.digest for outcome in outcomes])
            if not exists:
                lost |= _write_bucket(work, name, path, [outcome.digest for outcome in outcomes], reading)
        if not lost:
            break
        # Remembered, but in no artefact: a run was interrupted or the artefact damaged, or an id was a duplicate.
        memory.forget(lost)
    reading.skipped.extend(Skipped(printable(name), "", printable(reason), 1) for name, reason in refused.items())
    reading.unread.update(kinds(refused))
    skipped = sum(max(q.files, 1) for q in reading.skipped)
    work.write("skipped.parquet", [[vars(q) for q in reading.skipped]], partial(write_skipped, reading.skipped))
    remembered.parent.mkdir(parents=True, exist_ok=True)
    with work.writing(remembered) as temporary:
        reading.journal.write(temporary, signature)
    work.counts |= {
        "documents": len(reading.used),
        "characters": sum(outcome.characters for outcome in reading.used),
        "text bytes": sum(outcome.bytes for outcome in reading.used),
        "skipped": skipped,
    }
    work.info["changes"] = _changes(work)
    languages, notes = _languages_and_notes(work)
    left_out = {"files not read": dict(reading.unread.most_common()), "notes": notes}
    work.info |= {"language": source.language, "languages": languages, **left_out}
    read = sum(outcome.digest in reading.normalised for outcome in reading.used)
    work.recomputed |= {
        "documents read": read,
        "documents unchanged": len(reading.used) - read,
        "documents skipped": skipped,
    }
    first = next(name for name in work.draft.files if name.startswith("bucket"))
    sample = pq.read_table(work.draft.path(first), columns=["id", "title", "characters", "text"])[:5]
    work.show_table("sample", sample.to_pylist())
    work.show_table("languages", [{"language": name_of(code), "documents": n} for code, n in languages.items()])
    work.show_table("skipped", [vars(q) for q in reading.skipped[:20]])


def _write_bucket(work: Work, name: str, path: Path, digests: Sequence[str], reading: CorpusReading) -> set[str]:
    """Write a bucket of documents, given by their digests; if some are lost, write nothing and return those.

    Documents that were not read now come from the previous artefact.
    """
    assert work.corpus is not None
    previous, language = work.draft.previous, work.settings.corpora[work.corpus].language
    before: dict[str, NormalisedDocument] = {}
    if previous is not None and name in previous.manifest.files:
        before = load_documents(previous.path(name))
        if previous.manifest.info.get("language") != language:
            before = {key: replace(d, language=detected(f"{d.title}\n{d.text}")) for key, d in before.items()}
    lost = {digest for digest in digests if digest not in reading.normalised and digest not in before}
    if not lost:
        documents = [reading.document(d) if d in reading.normalised else before[d] for d in digests]
        with work.writing(path) as temporary:
            write_documents([d if language == AUTO else replace(d, language=language) for d in documents], temporary)
    return lost


def _changes(work: Work) -> int:
    """Return how many documents have been added, changed or removed, now and before."""
    previous = work.draft.previous
    files = previous.manifest.files if previous else {}
    changes = int(previous.manifest.info.get("changes", 0)) if previous else 0
    for name in (name for name in {**files, **work.draft.files} if name.startswith("bucket")):
        before = previous.path(name) if previous and name in files else None
        now = work.draft.path(name) if name in work.draft.files else None
        if before != now:
            old, new = (
                set(zip(*pq.read_table(path, columns=["id", "sha256"]).to_pydict().values(), strict=True))
                if path
                else set()
                for path in (before, now)
            )
            changes += max(len(new - old), len(old - new))
    return changes


def _languages_and_notes(work: Work) -> list[dict[str, int]]:
    """Return documents by code of language, empty if that is not certain, and by what reading noted; most first."""
    languages, notes = Counter[str](), Counter[str]()
    for name in work.draft.files:
        if name.startswith("bucket"):
            table = pq.read_table(work.draft.path(name), columns=["language", "metadata"])
            languages.update(table["language"].to_pylist())
            for metadata in table["metadata"].to_pylist():
                noted = notes_of(metadata).items()
                notes.update(f"{key} {note}" if isinstance(note, str) else key for key, note in noted)
    return [dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))) for counts in (languages, notes)]


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipe of this stage."""
    return [
        Recipe(
            key="documents",
            build=build_documents,
            description="Normalised documents of a corpus, in buckets; skipped documents with the reason.",
            group=GROUP,
            settings=lambda tools: tools.settings.buckets,
            source=_source,
            outside=SOURCES,
            version=f"{READER}.{LAYOUT}",
            kinds=("parquet",),
        ),
    ]
