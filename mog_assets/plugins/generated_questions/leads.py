"""Whether a question leads back to its document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.text.chunks import Layout

# A document is found if it is among so many first ones.
DOCUMENTS = 20
# Scores of questions and chunks that are in memory at a time, in bytes.
_SCORES_BYTES = 256 << 20

RETRIEVERS = ("bm25", "dense")


def leads_back(
    corpora: Corpora, terms: Sequence[Sequence[str]], vectors: np.ndarray, documents: np.ndarray
) -> dict[str, np.ndarray]:
    """Whether each retriever finds the document of each question within `DOCUMENTS` at the best of its levels.

    Ranks are exact: a document ranks by its best chunk, among all documents of the corpora.

    Args:
        corpora: What is searched.
        terms: Index terms of n questions.
        vectors: Their vectors, shape (n, size).
        documents: Position of the document of each question, shape (n,).

    Returns:
        By retriever, bool array of shape (n,).
    """
    leading = {name: np.zeros(len(documents), bool) for name in RETRIEVERS}
    if not len(documents):
        return leading
    for level in corpora.settings.level_range:
        chunks = corpora.layout.count(level)
        index, table = corpora.joined_bm25(level), corpora.vectors(level)

        def by_words(rows: slice, chunks: int = chunks, index=index) -> np.ndarray:  # type: ignore[no-untyped-def]
            scores = np.zeros((len(terms[rows]), chunks), np.float32)
            index.add_scores(terms[rows], scores)
            # A chunk without any word of the question is not found.
            scores[scores <= 0] = -np.inf
            return scores

        def by_vectors(rows: slice, table=table) -> np.ndarray:  # type: ignore[no-untyped-def]
            products: np.ndarray = table.products(vectors[rows])
            return products

        for name, score in (("bm25", by_words), ("dense", by_vectors)):
            ranks = _ranks(score, corpora.layout, level, documents)
            leading[name] |= ranks <= DOCUMENTS
    return leading


def _ranks(score: Callable[[slice], np.ndarray], layout: Layout, level: int, documents: np.ndarray) -> np.ndarray:
    """Rank, from 1, of each question's document; equal scores go to the earlier document; beyond all if not found."""
    offsets = layout.level_offsets(level)
    filled = np.flatnonzero(np.diff(offsets))
    ranks = np.full(len(documents), len(layout.documents) + 1, np.int64)
    for rows in _blocks(len(documents), layout.count(level)):
        best = np.full((len(documents[rows]), len(layout.documents)), -np.inf, np.float32)
        if len(filled):
            best[:, filled] = np.maximum.reduceat(score(rows), offsets[filled], axis=1)
        least = best[np.arange(len(best)), documents[rows]][:, None]
        before = np.arange(len(layout.documents)) < documents[rows][:, None]
        better = ((best > least) | ((best == least) & before)).sum(axis=1)
        ranks[rows] = np.where(least[:, 0] > -np.inf, better + 1, len(layout.documents) + 1)
    return ranks


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    step = max(_SCORES_BYTES // (4 * max(columns, 1)), 1)
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))
