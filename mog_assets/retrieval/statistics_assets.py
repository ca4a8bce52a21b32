"""The asset of term statistics, which are held while few documents change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mog_assets.chunking.layouts import open_layout
from mog_assets.recipe import Work
from mog_assets.resources.store import Artefact
from mog_assets.retrieval.shards import frequencies_and_lengths, open_titles
from mog_assets.retrieval.statistics import (
    DOCUMENTS,
    LANGUAGES,
    TOTALS,
    Counted,
    StoredStatistics,
    changed,
    deviations,
    document_hashes,
    drifted,
    file_of,
    read_documents,
    summed,
    write_documents,
    write_terms,
)
from mog_assets.retrieval.term_tables import TermTable
from mog_assets.retrieval.vocabulary import TERMS
from mog_assets.tables import read_table
from mog_assets.text.languages import DEFAULT
from mog_assets.text.terms import ANALYSIS, terms_of
from mog_assets.tools import Tools

# Documents of each language, and characters of each, that say which words are frequent in it.
_DRAWN, _READ = 200, 20_000


def build_statistics(work: Work) -> None:
    """Count in how many chunks of each level, and in how many titles, terms occur."""

    def count(corpus: str) -> dict[str, Counted]:
        tokens, by_kind = work.input("tokens", corpus), {}
        terms = [list(TermTable(tokens.path(name))) for name in tokens.names("terms_")]
        for level in work.settings.level_range:
            stored = work.input(f"bm25/level_{level}", corpus)
            counts = [frequencies_and_lengths(stored.path(name)) for name in stored.names("counts_")]
            shards_of_it = zip(terms, counts, strict=True)
            by_kind[f"level_{level}"] = summed((own, *of_shard) for own, of_shard in shards_of_it)
        by_kind["title"] = summed((part.terms, part.frequencies, part.lengths) for part in open_titles(tokens))
        return by_kind

    hold_statistics(work, count)


def hold_statistics(work: Work, count: Callable[[str], dict[str, Counted]]) -> None:
    """Write the statistics of all corpora, or keep those that are held.

    Args:
        work: Of an asset of all corpora.
        count: Counts the texts of a corpus, by kind.
    """
    corpora, share = list(work.settings.corpora), work.settings.drift.documents
    now = {corpus: hashes_of(work, corpus) for corpus in corpora}
    scopes = [[corpus] for corpus in corpora]
    if work.settings.bm25.statistics == "question_set":
        scopes = [corpora, *(question_set.corpora for question_set in work.settings.question_sets.values())]
    previous = work.comparable
    stored = None if previous is None else read_documents(previous.path(DOCUMENTS))
    reason = "there were none to keep" if stored is None else drifted(stored, now, scopes, share)
    total = sum(len(hashes) for hashes in now.values())
    edited = 0 if stored is None else sum(changed(stored.get(c, hashes[:0]), hashes) for c, hashes in now.items())
    if previous is not None and reason is None:
        work.keep(previous)
        work.counts |= previous.manifest.counts
        work.info["renewed"] = None
        reason = f"kept: {edited:,} of {total:,} documents changed since they were counted, at most {share:.2%} may"
    else:
        work.info["renewed"] = reason
        totals, terms = {}, 0
        versions = [work.input(key, corpus).manifest.version for key in work.recipe.deps for corpus in corpora]
        made_of = [work.recipe.settings(work.tools), versions]
        with work.progress(len(corpora), "corpora counted") as advance:
            for corpus in corpora:
                path, _ = work.file(file_of(corpus), made_of)
                with work.writing(path) as temporary:
                    totals[corpus] = write_terms(count(corpus), temporary)
                terms += len(TermTable(path))
                advance(1)
        path, _ = work.file(TOTALS, made_of)
        with work.writing(path) as temporary:
            temporary.write_text(json.dumps(totals, sort_keys=True), encoding="utf-8")
        words = {corpus: frequent_terms(work.input("documents", corpus)) for corpus in corpora}
        path, _ = work.file(LANGUAGES, made_of)
        with work.writing(path) as temporary:
            temporary.write_text(json.dumps(words), encoding="utf-8")
        path, _ = work.file(DOCUMENTS, made_of)
        with work.writing(path) as temporary:
            write_documents(now, temporary)
        work.counts |= {"documents": total, "terms": terms}
        work.recomputed["corpora counted"] = len(corpora)
        if previous is not None and stored is not None and set(stored) == set(now):
            off = deviations(
                StoredStatistics(previous.path, corpora),
                StoredStatistics(work.draft.path, corpora),
                work.settings.bm25.b,
            )
            work.show_table("how far weights of terms were off before", off)
        reason = f"counted anew: {reason}"
    work.counts["documents changed since"] = 0 if work.info["renewed"] else edited
    work.shown["which statistics"] = reason


def frequent_terms(documents: Artefact) -> dict[str, dict[str, int]]:
    """Frequent terms of a corpus and how often they occur, by code of the language of documents drawn by their hash."""
    digests: dict[str, list[str]] = {}
    for name in documents.names("bucket"):
        for code, digest in zip(
            *read_table(documents.path(name), ["language", "sha256"]).to_pydict().values(), strict=True
        ):
            digests.setdefault(code or DEFAULT, []).append(digest)
    drawn = {digest for of_language in digests.values() for digest in sorted(of_language)[:_DRAWN]}
    counts: dict[str, Counter[str]] = {code: Counter() for code in digests}
    for name in documents.names("bucket"):
        table = read_table(documents.path(name), ["language", "sha256", "text"])
        for row in table.filter(pc.is_in(table["sha256"], pa.array(sorted(drawn)))).to_pylist():
            code = row["language"] or DEFAULT
            counts[code].update(terms_of([row["text"][:_READ]], code)[0])
    return {code: dict(own.most_common(2 * TERMS)) for code, own in sorted(counts.items())}


def hashes_of(work: Work, corpus: str) -> np.ndarray:
    """`document_hashes` of a corpus."""
    documents, chunks = work.input("documents", corpus), work.input("chunks/level_1", corpus)
    names = documents.names("bucket")
    digests = []
    for name in names:
        table = read_table(documents.path(name), ["sha256", "language"])
        digests += [digest + code for digest, code in zip(*(column.to_pylist() for column in table), strict=True)]
    return document_hashes(open_layout(corpus, documents, chunks), digests)


def statistics_settings(tools: Tools) -> Any:
    """What decides which statistics are held, beside the documents."""
    settings = tools.settings
    sets = [question_set.corpora for question_set in settings.question_sets.values()]
    drift, bm25 = settings.drift.documents, settings.bm25
    return [drift, bm25.statistics, bm25.b, list(settings.corpora), sets, ANALYSIS, list(settings.level_range)]
