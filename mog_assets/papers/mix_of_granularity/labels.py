"""Soft labels: how well the best chunk of each level answers a training question, as a target for the router.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.2 and appendix E.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from scipy import sparse

from mog_assets.index.corpora import Encode
from mog_assets.index.term_counts import TermCounts
from mog_assets.index.vectors import VectorTable
from mog_assets.papers.level_search.bm25 import statistics
from mog_assets.papers.level_search.search import counts as level_counts
from mog_assets.papers.level_search.searchers import Searcher
from mog_assets.papers.level_search.vectors import LevelRows
from mog_assets.papers.mix_of_granularity.ranker import Ranker, Retrieval, hop_ranker, level_ranker, neighbourhoods
from mog_assets.questions.sets import Question
from mog_assets.resources.arrays import places, ranges
from mog_assets.text.chunks import Layout

COLUMNS = ("question_set", "question", "kind", "split", "train", "group", "text", "label")


class Rows(Protocol):
    """Unit vectors by row."""

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Return float array of shape (len(rows), size)."""


def _ranker(retrieval: Retrieval, graph: bool) -> Ranker:
    """Return BM25 over neighbourhoods, or over levels."""
    return hop_ranker(retrieval, None) if graph else level_ranker(retrieval, "bm25", None)


def similarities(
    retrieval: Retrieval, questions: Sequence[Question], method: str, graph: bool, encode: Encode
) -> np.ndarray:
    """Return similarity of the best BM25 chunk of each granularity to the label text of each question.

    Args:
        retrieval: Retrieval over the corpora for these questions.
        questions: n questions.
        method: `embedding`, `tfidf` or `hitrate`.
        graph: Whether granularities are hops of the sentence graph, not levels.
        encode: Encodes the label texts of questions without evidence, if the method needs vectors.

    Returns:
        float64 array of shape (n, granularities), finest first; 0 where no chunk was found.

    References: Zhong et al. 2024, section 3.2.
    """
    corpora, ranker = retrieval.corpora, _ranker(retrieval, graph)
    granularities = range(1, ranker.chunks.count + 1)
    best, _ = best_chunks(ranker.searcher, granularities, len(questions))
    if method == "embedding":
        finest = corpora.vectors
        tables: dict[int, Rows] = {
            g: neighbourhoods(retrieval.corpora).vectors(g, finest) if graph else LevelRows(corpora, g)
            for g in granularities
        }
        vectors = evidence_vectors(questions, corpora.position, corpora.layout, finest)
        without = [i for i, question in enumerate(questions) if not question.evidence]
        if without:
            vectors[without] = encode([label_text(questions[i], {}) for i in without])
        return similarities_embedding(vectors, tables, best)
    wanted = {(e.corpus, e.doc): corpora.position[e.corpus, e.doc] for q in questions for e in q.evidence}
    documents_of = corpora.texts(wanted.values())
    documents = {key: documents_of[position][1] for key, position in wanted.items()}
    texts = [label_text(question, documents) for question in questions]
    counts = {
        g: neighbourhoods(retrieval.corpora).counts(g) if graph else level_counts(corpora, g) for g in granularities
    }
    measure = similarities_tfidf if method == "tfidf" else similarities_hitrate
    return measure(corpora.analysis.terms(texts), counts, best)


def label_table(
    name: str,
    questions: Sequence[Question],
    train: Sequence[str],
    similarities: np.ndarray,
    values: tuple[float, float],
) -> pd.DataFrame:
    """Return soft labels with the other columns a router is trained on; one row per question that has a label.

    Args:
        name: Name of the question set.
        questions: n questions.
        train: Splits that routers are trained on.
        similarities: See `soft_labels`.
        values: See `soft_labels`.

    Returns:
        Table with `COLUMNS`; questions about one document form a group.
    """
    labels = soft_labels(similarities, values)
    table = pd.DataFrame(
        {
            "question_set": name,
            "question": [q.id for q in questions],
            "kind": [q.kind for q in questions],
            "split": [q.split for q in questions],
            "train": [q.split in train for q in questions],
            "group": [q.document for q in questions],
            "text": [q.question for q in questions],
            "label": list(labels),
        }
    )
    return table[labels.any(axis=1)].reset_index(drop=True)


def soft_labels(similarities: np.ndarray, values: tuple[float, float]) -> np.ndarray:
    """Return target of the router for each question: `values` at its two most similar levels, 0 elsewhere.

    Args:
        similarities: Similarity of the label text and the best chunk of each level, shape (n, levels), finest first.
        values: Values of the most similar and the second most similar level; the finer level wins a tie.

    Returns:
        float32 array of shape (n, levels). A row without a similarity above 0 is all zeros: the question has no label.

    References: Zhong et al. 2024, section 3.2.
    """
    order = np.argsort(-similarities, axis=1, kind="stable")
    labels = np.zeros(similarities.shape, np.float32)
    for place, value in enumerate(values[: similarities.shape[1]]):
        np.put_along_axis(labels, order[:, place : place + 1], value, axis=1)
    labels[~(similarities > 0).any(axis=1)] = 0
    return labels


def label_text(question: Question, texts: Mapping[tuple[str, str], str]) -> str:
    """Return the text that chunks are compared with: the gold evidence if there is any, else "question answer".

    Args:
        question: A training question.
        texts: Text of every document with evidence, by corpus and document id.
    """
    if question.evidence:
        return "\n".join(texts[e.corpus, e.doc][e.start : e.end] for e in question.evidence)
    answer = question.long_answer or question.options.get(question.answer, question.answer)
    return f"{question.question} {answer}".strip()


def best_chunks(searcher: Searcher, levels: Sequence[int], questions: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best chunk of each level over all corpora, for every question.

    Args:
        searcher: Searches for n questions.
        levels: Finest first.
        questions: Number of questions, n.

    Returns:
        int64 array of shape (n, levels): chunks as `Hits` numbers them, −1 where none scored; and their float32 scores.
    """
    best, scores = np.full((questions, len(levels)), -1, np.int64), np.zeros((questions, len(levels)), np.float32)
    for column, level in enumerate(levels):
        matches = searcher.search(level, 1)
        first = places(matches.question) == 0
        best[matches.question[first], column] = matches.chunk[first]
        scores[matches.question[first], column] = matches.score[first]
    return best, scores


def similarities_embedding(labels: np.ndarray, tables: Mapping[int, Rows], best: np.ndarray) -> np.ndarray:
    """Return cosine of the label's vector and that of the best chunk of each level.

    Args:
        labels: Unit vectors, shape (n, size).
        tables: Unit vectors of the chunks, by level.
        best: Result of `best_chunks` for the levels of `tables`, finest first.

    Returns:
        float64 array of shape (n, levels), 0 where there is no chunk.
    """
    result = np.zeros(best.shape)
    for column, level in enumerate(sorted(tables)):
        here = np.flatnonzero(best[:, column] >= 0)
        vectors = tables[level].rows(best[here, column]).astype(np.float32)
        result[here, column] = np.einsum("ij,ij->i", labels[here], vectors)
    return result


def similarities_hitrate(
    label_terms: Sequence[Sequence[str]], counts: Mapping[int, Sequence[TermCounts]], best: np.ndarray
) -> np.ndarray:
    """Return share of the label's distinct tokens that occur in the best chunk of each level.

    Args:
        label_terms: Tokens of n label texts, repetitions included.
        counts: Counts of the chunks: by level, per corpus.
        best: From `best_chunks`, for the levels of `counts`, finest first.

    Returns:
        float64 array of shape (n, levels) in [0, 1], 0 where there is no chunk or no token.
    """

    def share(label: Mapping[str, int], chunk: Mapping[str, int]) -> float:
        return len(label.keys() & chunk.keys()) / max(len(label), 1)

    return _compared(label_terms, counts, best, share)


def similarities_tfidf(
    label_terms: Sequence[Sequence[str]], counts: Mapping[int, Sequence[TermCounts]], best: np.ndarray
) -> np.ndarray:
    """Return cosine of the tf-idf vectors of the label and of the best chunk of each level.

    A term that occurs tf times has the weight tf · (log((1 + N) / (1 + df)) + 1), with N chunks and df of the finest
    level over all corpora; a term in no chunk has df = 0 and lengthens the label's vector.

    Args:
        label_terms: Tokens of n label texts, repetitions included.
        counts: Counts of the chunks: by level, per corpus.
        best: From `best_chunks`, for the levels of `counts`, finest first.

    Returns:
        float64 array of shape (n, levels) in [0, 1], 0 where there is no chunk or no token.
    """
    over = statistics(counts[min(counts)])
    frequencies = over.frequencies
    assert isinstance(frequencies, Mapping)

    def weighted(terms: Mapping[str, int]) -> dict[str, float]:
        return {t: n * (math.log((1 + over.chunks) / (1 + frequencies.get(t, 0))) + 1) for t, n in terms.items()}

    def cosine(label: Mapping[str, int], chunk: Mapping[str, int]) -> float:
        one, other = weighted(label), weighted(chunk)
        lengths = math.hypot(*one.values()) * math.hypot(*other.values())
        return sum(weight * other.get(term, 0) for term, weight in one.items()) / lengths if lengths else 0.0

    return _compared(label_terms, counts, best, cosine)


def evidence_vectors(
    questions: Sequence[Question], position: Mapping[tuple[str, str], int], layout: Layout, table: VectorTable
) -> np.ndarray:
    """Return vectors of gold evidence: means of the level-1 vectors under it, weighted by the characters in common.

    They need no encoding and are computed like the vectors of coarser chunks
    (`benchmarks/README.md` compares this with encoding the evidence).

    Args:
        questions: Any n questions.
        position: Position of every document in the layout, by corpus and id.
        layout: The layout of all corpora.
        table: Their level-1 vectors.

    Returns:
        float32 unit vectors of shape (n, size); all zeros for a question without evidence.
    """
    rows = [
        (row, position[e.corpus, e.doc], e.start, e.end)
        for row, question in enumerate(questions)
        for e in question.evidence
    ]
    owner, document, start, end = np.array(rows, np.int64).reshape(-1, 4).T
    first, last = layout.offsets[document], layout.offsets[document + 1]
    chunk = ranges(first, last)
    owner, start, end = (np.repeat(values, last - first) for values in (owner, start, end))
    common = np.minimum(layout.spans[chunk, 1], end) - np.maximum(layout.spans[chunk, 0], start)
    overlapping = common > 0
    shares = sparse.csr_matrix(
        (common[overlapping].astype(np.float32), (owner[overlapping], chunk[overlapping])), (len(questions), len(table))
    )
    used = np.unique(chunk[overlapping])
    result = shares[:, used] @ table.rows(used).astype(np.float32)
    return result / np.maximum(np.linalg.norm(result, axis=1, keepdims=True), 1e-12)


def _compared(
    label_terms: Sequence[Sequence[str]],
    counts: Mapping[int, Sequence[TermCounts]],
    best: np.ndarray,
    similarity: Callable[[Mapping[str, int], Mapping[str, int]], float],
) -> np.ndarray:
    """Return similarities of labels and their best chunks, given the counts of terms of both; shape (n, levels)."""
    labels, result = [Counter(terms) for terms in label_terms], np.zeros(best.shape)
    for column, level in enumerate(sorted(counts)):
        start = 0
        for part in counts[level]:
            shape = (len(part.lengths), len(part.terms))
            rows = sparse.csc_matrix((part.counts, part.indices, part.indptr), shape=shape).tocsr()
            chunk = best[:, column] - start
            for label in np.flatnonzero((chunk >= 0) & (chunk < len(part.lengths))).tolist():
                here = slice(*rows.indptr[chunk[label] : chunk[label] + 2].tolist())
                terms = [part.terms[i] for i in rows.indices[here].tolist()]
                of_chunk = dict(zip(terms, rows.data[here].tolist(), strict=True))
                result[label, column] = similarity(labels[label], of_chunk)
            start += len(part.lengths)
    return result
