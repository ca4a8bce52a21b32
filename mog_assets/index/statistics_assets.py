"""The asset of term statistics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mog_assets.build.recipe import Work
from mog_assets.build.tools import Tools
from mog_assets.index.analysis import TERMS
from mog_assets.index.shards import frequencies_and_totals
from mog_assets.index.statistics import LANGUAGES, TOTALS, Counted, file_of
from mog_assets.index.term_counts import open_titles
from mog_assets.index.term_tables import TermTable, write_table
from mog_assets.resources.store import Artefact
from mog_assets.resources.tables import read_table
from mog_assets.text.languages import DEFAULT
from mog_assets.text.terms import ANALYSIS, terms_of

# Documents of each language, and characters of each, that say which words are frequent in it.
_SAMPLED, _READ = 200, 20_000


def build_statistics(work: Work) -> None:
    """Count in how many chunks of each level, and in how many titles, terms occur."""

    def count(corpus: str) -> dict[str, Counted]:
        tokens, by_kind = work.input("tokens", corpus), {}
        terms = [list(TermTable(tokens.path(name))) for name in tokens.names("terms_")]
        stored = work.input("bm25/level_1", corpus)
        for level in work.settings.level_range:
            counts = [frequencies_and_totals(stored.path(name), level) for name in stored.names("counts_")]
            shards_of_it = zip(terms, counts, strict=True)
            by_kind[f"level_{level}"] = summed((own, *of_shard) for own, of_shard in shards_of_it)
        titles = [(part, part.lengths.sum(dtype=np.int64)) for part in open_titles(tokens)]
        by_kind["title"] = summed((part.terms, part.frequencies, len(part.lengths), int(n)) for part, n in titles)
        return by_kind

    write_statistics(work, count)


def write_statistics(work: Work, count: Callable[[str], dict[str, Counted]]) -> None:
    """Write the statistics of all corpora; only those of changed corpora are counted.

    Args:
        work: Of an asset of all corpora.
        count: Counts the texts of a corpus, by kind.
    """
    corpora, terms, totals, words = list(work.settings.corpora), 0, {}, {}
    work.recomputed["corpora counted"] = 0
    with work.progress(len(corpora), "corpora counted") as advance:
        for corpus in corpora:
            versions = [work.input(key, corpus).manifest.version for key in work.recipe.deps]
            made_of = [work.recipe.settings(work.tools), versions]
            (path, exists), (facts, known) = (
                work.file(name, made_of) for name in (file_of(corpus), f"facts_{corpus}.json")
            )
            if not (exists and known):
                with work.writing(path) as temporary:
                    counted = write_terms(count(corpus), temporary)
                with work.writing(facts) as temporary:
                    results = [counted, frequent_terms(work.input("documents", corpus))]
                    temporary.write_text(json.dumps(results), encoding="utf-8")
                work.recomputed["corpora counted"] += 1
            totals[corpus], words[corpus] = json.loads(facts.read_bytes())
            terms += len(TermTable(path))
            advance(1)
    for name, of_corpora in ((TOTALS, totals), (LANGUAGES, words)):
        path, _ = work.file(name, of_corpora)
        with work.writing(path) as temporary:
            # Its name stands for the content, whatever the order.
            temporary.write_text(json.dumps(of_corpora, sort_keys=True), encoding="utf-8")
    work.counts["terms"] = terms


def frequent_terms(documents: Artefact) -> dict[str, dict[str, int]]:
    """Return frequent terms of a corpus and how often they occur, by language of documents drawn by their hash."""
    digests: dict[str, list[str]] = {}
    for name in documents.names("bucket"):
        for code, digest in zip(
            *read_table(documents.path(name), ["language", "sha256"]).to_pydict().values(), strict=True
        ):
            digests.setdefault(code or DEFAULT, []).append(digest)
    sampled = {digest for of_language in digests.values() for digest in sorted(of_language)[:_SAMPLED]}
    counts: dict[str, Counter[str]] = {code: Counter() for code in digests}
    for name in documents.names("bucket"):
        table = read_table(documents.path(name), ["language", "sha256", "text"])
        for row in table.filter(pc.is_in(table["sha256"], pa.array(sorted(sampled)))).to_pylist():
            code = row["language"] or DEFAULT
            counts[code].update(terms_of([row["text"][:_READ]], code)[0])
    # Which of equally frequent ones are taken does not depend on the order of the documents.
    return {
        code: dict(Counter(dict(sorted(terms.items()))).most_common(2 * TERMS))
        for code, terms in sorted(counts.items())
    }


def statistics_settings(tools: Tools) -> Any:
    """Return what decides the statistics, beside the documents."""
    return [ANALYSIS, list(tools.settings.level_range)]


def summed(parts: Iterable[Counted]) -> Counted:
    """Add up the counts of several shards."""
    number: dict[str, int] = {}
    rows, frequencies, texts, tokens = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0, 0
    for terms, of_part, texts_of_part, tokens_of_part in parts:
        rows.append(np.array([number.setdefault(term, len(number)) for term in terms], np.int64))
        frequencies.append(of_part)
        texts, tokens = texts + texts_of_part, tokens + tokens_of_part
    counts = np.bincount(np.concatenate(rows), np.concatenate(frequencies), len(number)).astype(np.int64)
    return list(number), counts, texts, tokens


def write_terms(kinds: Mapping[str, Counted], path: Path) -> dict[str, list[int]]:
    """Write the document frequencies of a corpus: a row per term, a column per kind of text, 0 where it has none.

    Returns:
        By kind, how many texts there are, and their tokens.
    """
    terms = sorted({term for words, _, _, _ in kinds.values() for term in words})
    number = {term: row for row, term in enumerate(terms)}
    columns = {kind: np.zeros(len(terms), np.uint32) for kind in kinds}
    for kind, (words, frequencies, _, _) in kinds.items():
        columns[kind][[number[term] for term in words]] = frequencies
    write_table(terms, columns, path)
    return {kind: [texts, tokens] for kind, (_, _, texts, tokens) in kinds.items()}
