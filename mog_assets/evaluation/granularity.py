"""How fine the chunks of a corpus should be, and how many levels of them: `levels: auto`.

Corpora that are asked together may have one granularity, found by searching them together: what is best for a corpus
alone need not rank well among chunks of other sizes.

With enough training questions a search decides: every finest size gives chunks of all levels, every method of levels
ranks them for the questions, and the cheapest granularity is taken whose evidence recall cannot be told from the best.
Otherwise the lengths of sentences and sections decide.

The search cuts by the chunker `sentences`, whatever is configured: sizes and levels are what is compared, and a chunker
that has to be trained would have to be for every size.

References: Zhong et al. 2024 (Mix-of-Granularity), which names levels set by hand as a limit; SYSTEMS.md section 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file
from scipy import sparse

from mog_assets.corpus.chunkers import sentences
from mog_assets.corpus.chunks import Layout
from mog_assets.corpus.layouts import join_layouts
from mog_assets.corpus.questions import Question
from mog_assets.corpus.sentences import sentence_ends
from mog_assets.retrieval.bm25 import Bm25Index, TermCounts, statistics
from mog_assets.retrieval.controls import pieces
from mog_assets.retrieval.methods import LevelChunks, Method, Passages, Ranker
from mog_assets.retrieval.recall import evidence_recall
from mog_assets.retrieval.search import Bm25Searcher, Remembering
from mog_assets.retrieval.tokens import level_counts, query_terms, tokenise
from mog_assets.significance import bootstrap_interval

# With fewer questions the standard errors that decide are themselves mostly chance.
FEWEST_QUESTIONS = 20
# Standard errors below the best that a granularity may lie: to be chosen, to stay, to replace a dearer one that was
# chosen. The last two keep a changed document or question from cutting a whole corpus anew.
CHOSEN, STAYS, REPLACES = 1.0, 2.0, 0.5
# The same for lengths: a granularity stays while lengths that differ by a tenth would give it.
_TOLERANCE = 0.1
# A finest chunk holds so many median sentences.
SENTENCES = 4
# What is kept of a chunk's vector: 384 numbers of 2 bytes, as the default encoder has them.
_VECTOR_BYTES = 768
# Text between headings of Markdown or blank lines.
_SECTION = re.compile(r"\n[^\S\n]*\n\s*|\n(?=#{1,6} )")


@dataclass(frozen=True, order=True)
class Granularity:
    """Finest size in characters, and number of levels."""

    finest_chars: int
    levels: int


@dataclass(frozen=True)
class Choice:
    """A granularity with what led to it.

    Attributes:
        chosen: The granularity.
        rule: What it was chosen by, for people to read.
        rows: A row for each granularity that could have been chosen.
    """

    chosen: Granularity
    rule: str
    rows: list[dict[str, Any]]


def methods(levels: int) -> list[tuple[Method, int]]:
    """The methods that are searched with, each with the number of levels that it mixes: columns of a search."""
    fixed = [(Method(f"fixed-{j}", "bm25", "fixed", j), j) for j in range(1, levels + 1)]
    fused = [
        (Method(f"fused-{j}", "bm25", "fused", j), count) for count in range(2, levels + 1) for j in range(1, count + 1)
    ]
    return [*fixed, *fused]


def asked_together(corpora: Sequence[str], sets: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Corpora in groups: those that a set names are of one group. All keep the order of `corpora`."""
    group = {corpus: {corpus} for corpus in corpora}
    for names in sets:
        joined = set().union(*(group[name] for name in names))
        group |= dict.fromkeys(joined, joined)
    return list(dict.fromkeys(tuple(name for name in corpora if name in group[corpus]) for corpus in corpora))


def sampled(
    questions: Mapping[str, Sequence[Question]], corpora: Sequence[str], n: int, seed: int
) -> list[dict[str, Any]]:
    """Questions with evidence in some corpora, at most n, in an order that does not change with what others there are.

    Args:
        questions: By question set.
        corpora: Names of the corpora.
        n: How many.
        seed: Of the order in which they come.

    Returns:
        For each `text`, and `evidence`: corpus, document, start and end of disjoint spans. In order of drawing.
    """
    drawn = []
    for name, of_set in questions.items():
        for question in of_set:
            evidence = [[owner, doc, start, end] for owner, doc, start, end in pieces(question) if owner in corpora]
            if evidence:
                place = hashlib.sha256(f"{seed}/{name}/{question.id}".encode()).hexdigest()
                drawn.append((place, {"text": question.question, "evidence": evidence}))
    return [question for _, question in sorted(drawn, key=lambda pair: pair[0])[:n]]


def document_hashes(documents: Mapping[str, Sequence[str]]) -> np.ndarray:
    """Hashes of the documents of some corpora, uint64, sorted.

    Args:
        documents: Parquet files of documents, by corpus.
    """
    shas = (
        sha for paths in documents.values() for p in paths for sha in pq.read_table(p, columns=["sha256"])["sha256"]
    )
    return np.unique(np.array([int(sha.as_py()[:16], 16) for sha in shas], np.uint64))


def share_other(cell: Path, hashes: np.ndarray) -> float:
    """Share of documents that are not those a cell was made from: of the added or of the removed, the greater."""
    held = load_file(cell)["documents"]
    return float(max((~np.isin(hashes, held)).mean(), (~np.isin(held, hashes)).mean()))


def search(
    documents: Mapping[str, Sequence[str]],
    questions: Sequence[Mapping[str, Any]],
    finest_chars: int,
    levels: int,
    k1: float,
    b: float,
    pooled: bool,
    k_r: int,
    out: str,
) -> int:
    """Evidence recall of every method of levels on chunks of one finest size, and what their levels cost.

    Args:
        documents: Parquet files of documents, in order, by corpus; the corpora are searched together.
        questions: See `sampled`.
        finest_chars: Finest size in characters.
        levels: The most levels.
        k1: See `Bm25Index`.
        b: See `Bm25Index`.
        pooled: Whether BM25's statistics are of all corpora together.
        k_r: See `Ranker`.
        out: File to write: `er`, float32 of shape (questions, methods), columns as `methods` has them; `bytes`, int64
            of shape (levels,), of term counts and vectors; `text`, int64 of shape (1,), bytes of the text; `documents`,
            see `document_hashes`.

    Returns:
        Number of questions.
    """
    layouts, counts, size = [], [], 0
    for corpus, paths in documents.items():
        tables = [pq.read_table(path, columns=["id", "title", "text"]) for path in paths]
        ids, titles, texts = ([v for t in tables for v in t[name].to_pylist()] for name in ("id", "title", "text"))
        spans = [sentences(text, finest_chars) for text in texts]
        offsets = np.concatenate([[0], np.cumsum([len(own) for own in spans])]).astype(np.int64)
        layouts.append(Layout(corpus, ids, offsets, np.concatenate(spans)))
        chunks = [text[start:end] for text, own in zip(texts, spans, strict=True) for start, end in own]
        counts.append(_counted(titles, chunks, layouts[-1]))
        size += sum(len(text.encode()) for text in (*titles, *texts))
    parts = {level: [of_level(level) for of_level in counts] for level in range(1, levels + 1)}

    def opened(level: int) -> list[Bm25Index]:
        together = statistics(parts[level]) if pooled else None
        return [Bm25Index(part, together or statistics([part]), k1, b) for part in parts[level]]

    def starts(level: int) -> np.ndarray:
        return np.cumsum([0, *(layout.count(level) for layout in layouts)])[:-1]

    searcher = Remembering(Bm25Searcher(query_terms([str(q["text"]) for q in questions]), opened, starts))
    layout = join_layouts("", layouts)
    names = [(own.corpus, identity) for own in layouts for identity in own.documents]
    position = {name: i for i, name in enumerate(names)}
    gold = [(i, position[corpus, doc], s, e) for i, q in enumerate(questions) for corpus, doc, s, e in q["evidence"]]
    question, document, start, end = np.array(gold, np.int64).T
    nothing = np.zeros(len(gold))
    evidence = Passages(question, nothing, document, start, end, nothing, nothing)
    rankers = {count: Ranker(searcher, LevelChunks(layout, count, starts), k_r) for count in range(1, levels + 1)}
    er = [evidence_recall(rankers[count].rank(method), evidence, len(questions)) for method, count in methods(levels)]
    arrays: dict[str, np.ndarray] = {
        "er": np.stack(er, axis=1).astype(np.float32),
        "bytes": np.array([sum(map(_bytes, of_corpora)) for of_corpora in parts.values()], np.int64),
        "text": np.array([size], np.int64),
        "documents": document_hashes(documents),
    }
    save_file(arrays, out)
    return len(questions)


def _counted(titles: Sequence[str], chunks: Sequence[str], layout: Layout) -> Any:
    """What gives the term counts of a level, from one tokenisation."""
    ids, terms = tokenise([*titles, *chunks])
    lengths = [len(row) for row in ids]
    flat = np.fromiter((i for row in ids for i in row), np.int32, sum(lengths))
    shape = (len(ids), len(terms))
    matrix = sparse.csr_matrix((np.ones(len(flat), np.int32), flat, np.cumsum([0, *lengths])), shape)
    matrix.sum_duplicates()

    def level(number: int) -> TermCounts:
        found = level_counts(matrix[len(titles) :], matrix[: len(titles)], layout, number)
        tokens = np.asarray(found.sum(axis=1)).ravel().astype(np.int64)
        return TermCounts(terms, found.indptr, found.indices, found.data, tokens)

    return level


def _bytes(part: TermCounts) -> int:
    """As `save_counts` writes them, with the chunks' vectors."""
    return 8 * (len(part.indices) + len(part.indptr) + len(part.lengths)) + _VECTOR_BYTES * len(part.lengths)


def lengths(documents: Mapping[str, Sequence[str]], out: str) -> int:
    """Lengths that say how fine chunks should be where no questions do.

    Args:
        documents: Parquet files of documents, in order, by corpus.
        out: File to write: `sentence` and `section`, float64 of shape (1,): median lengths in characters, and
            `documents`, see `document_hashes`. A section is text between blank lines or headings, the whole document
            where there are none.

    Returns:
        Number of documents.
    """
    sentences: list[np.ndarray] = []
    sections: list[int] = []
    for path in (path for paths in documents.values() for path in paths):
        for text in pq.read_table(path, columns=["text"])["text"].to_pylist():
            sentences.append(np.diff(sentence_ends(text), prepend=0))
            sections += [len(section) for section in _SECTION.split(text) if section.strip()]
    medians = {"sentence": np.median(np.concatenate(sentences)), "section": np.median(sections)}
    arrays = {name: np.array([median], np.float64) for name, median in medians.items()}
    save_file({**arrays, "documents": document_hashes(documents)}, out)
    return len(sentences)


def from_search(cells: Mapping[int, Path], levels: int, earlier: Granularity | None, seed: int) -> Choice:
    """Choose by evidence recall and cost.

    The value of a granularity is the ER of its best method, `fixed-j` or `fused-j` of its levels, found on one half of
    the questions and measured on the other, both ways: more levels do not win by having more methods to choose from.
    Its cost is the bytes of term counts and vectors of its levels, as a multiple of the text. Chosen is the cheapest
    one that lies at most one standard error, of the mean paired difference, below the best.

    ER divided by cost would always be greatest for one level of the coarsest size; it is shown, and decides nothing.

    What was chosen earlier stays unless it lies more than `STAYS` standard errors below the best, or a cheaper one at
    most `REPLACES`.

    Args:
        cells: What `search` wrote, by finest size.
        levels: The most levels.
        earlier: What was chosen before.
        seed: Of the intervals.

    References: Breiman et al. 1984, Classification and Regression Trees, section 3.4.3 (the one-standard-error rule).
    """
    columns = methods(levels)
    found = {size: load_file(path) for size, path in cells.items()}
    granularities = [Granularity(size, count) for size in cells for count in range(1, levels + 1)]
    values, costs, best_methods = [], [], []
    for one in granularities:
        arrays = found[one.finest_chars]
        own = [i for i, (m, n) in enumerate(columns) if n == one.levels or (m.kind == "fixed" and n <= one.levels)]
        er = arrays["er"][:, own].astype(np.float64)
        value, best = cross_fitted(er)
        values.append(value)
        best_methods.append(columns[own[best]][0].name)
        costs.append(arrays["bytes"][: one.levels].sum() / max(int(arrays["text"][0]), 1))
    er, cost = np.stack(values, axis=1), np.array(costs)
    behind = standard_errors_behind(er)
    place = chosen_of(er.mean(axis=0), cost, behind, granularities, earlier)
    low, high = bootstrap_interval(er, seed=seed)
    mean = er.mean(axis=0)
    rows = [
        {
            "finest characters": one.finest_chars,
            "levels": one.levels,
            "best method": best_methods[i],
            "ER": round(float(mean[i]), 4),
            "low": round(float(low[i]), 4),
            "high": round(float(high[i]), 4),
            "index bytes / text bytes": round(float(cost[i]), 3),
            "ER / cost": round(float(mean[i] / cost[i]), 4),
            "standard errors behind": round(float(behind[i]), 2),
            "chosen": i == place,
        }
        for i, one in enumerate(granularities)
    ]
    return Choice(granularities[place], f"search with {len(er)} training questions", rows)


def cross_fitted(er: np.ndarray) -> tuple[np.ndarray, int]:
    """ER of each question by the method that is best for the other half of the questions.

    Args:
        er: float array of shape (questions, methods); even and odd rows are the halves.

    Returns:
        float array of shape (questions,), and the column that is best for all questions.
    """
    half = np.arange(len(er)) % 2
    value = np.empty(len(er))
    for this in (0, 1):
        value[half == this] = er[half == this, er[half != this].mean(axis=0).argmax()]
    return value, int(er.mean(axis=0).argmax())


def standard_errors_behind(er: np.ndarray) -> np.ndarray:
    """How far each column's mean lies below the greatest one, in standard errors of the mean paired difference.

    Args:
        er: float array of shape (questions, granularities), at least two questions.

    Returns:
        float array of shape (granularities,), at least 0; infinite where it lies as far below for all questions.
    """
    best = er[:, [er.mean(axis=0).argmax()]]
    difference = (best - er).mean(axis=0)
    error = (best - er).std(axis=0, ddof=1) / np.sqrt(len(er))
    # Rounding makes neither a difference nor an error.
    behind = np.where(difference > 1e-9, np.inf, 0.0)
    np.divide(difference, error, out=behind, where=(error > 1e-9) & (difference > 1e-9))
    return behind


def chosen_of(
    mean: np.ndarray,
    cost: np.ndarray,
    behind: np.ndarray,
    granularities: Sequence[Granularity],
    earlier: Granularity | None,
) -> int:
    """Position of the granularity to choose; see `from_search`.

    Args:
        mean: ER of each, shape (n,).
        cost: Of each, shape (n,).
        behind: See `standard_errors_behind`.
        granularities: The n granularities.
        earlier: What was chosen before; one that is not among them counts for nothing.
    """
    order = np.lexsort((-mean, cost))
    if earlier is not None and earlier in granularities:
        before = granularities.index(earlier)
        cheaper = (cost < cost[before]) & (behind <= REPLACES)
        if behind[before] <= STAYS and not cheaper.any():
            return before
    return int(order[np.argmax(behind[order] <= CHOSEN)])


def from_lengths(cell: Path, finest_chars: Sequence[int], levels: int, earlier: Granularity | None) -> Choice:
    """Choose by what texts are made of: the finest chunk holds some sentences, the coarsest a section.

    Finest is the size nearest, as a ratio, to `SENTENCES` median sentences; levels are as many as it takes for the
    coarsest chunk to hold the median section, in 1 … `levels`. What was chosen earlier stays while lengths that differ
    by up to a tenth would give it.

    Args:
        cell: What `lengths` wrote.
        finest_chars: Sizes to choose from.
        levels: The most levels.
        earlier: What was chosen before.
    """
    found = load_file(cell)
    sentence, section = float(found["sentence"][0]), float(found["section"][0])

    def size(stretch: float) -> int:
        wanted = SENTENCES * sentence * stretch
        return min(finest_chars, key=lambda chars: abs(np.log(chars / wanted)))

    def count(finest: int, stretch: float) -> int:
        return int(np.clip(np.ceil(np.log2(section * stretch / finest)) + 1, 1, levels))

    stretches = (1.0, 1 - _TOLERANCE, 1 + _TOLERANCE)
    chosen = Granularity(size(1.0), count(size(1.0), 1.0))
    near = [Granularity(size(s), count(size(s), t)) for s in stretches for t in stretches]
    if earlier is not None and earlier in near:
        chosen = earlier
    row = {
        "finest characters": chosen.finest_chars,
        "levels": chosen.levels,
        "median sentence": sentence,
        "median section": section,
        "chosen": True,
    }
    return Choice(chosen, "lengths of sentences and sections", [row])
