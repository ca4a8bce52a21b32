"""Whether a question leads back to its document."""

from __future__ import annotations

import numpy as np

from mog_assets.search.index import Index, Query
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.search import Scoring

# A document is found if it is among so many first ones.
DOCUMENTS = 20
# Sections that are scored at a time.
_SECTIONS = 1 << 12

RETRIEVERS = ("bm25", "dense")


def leads_back(retrieval: Retrieval, documents: np.ndarray) -> dict[str, np.ndarray]:
    """Tell whether each retriever finds the document of each question within `DOCUMENTS` at the best of its levels.

    Ranks are exact: a document ranks by its best chunk, among all documents; equal scores go to the earlier document.

    Args:
        retrieval: The n questions.
        documents: Position of the document of each, shape (n,).

    Returns:
        By retriever, bool array of shape (n,).
    """
    index = retrieval.index
    kinds = np.array([name.partition("-")[0] for name in index.text_experts])
    leading = {name: np.zeros(len(documents), bool) for name in RETRIEVERS}
    for row, (query, document) in enumerate(zip(retrieval.searched, documents.tolist(), strict=True)):
        best = _best_of_documents(index, query)
        # A chunk without any word of the question is not found by words.
        best[(kinds == "bm25")[:, None] & (best <= 0)] = -np.inf
        score = best[:, [document]]
        better = (best > score).sum(axis=1) + (best[:, :document] == score).sum(axis=1)
        within = (score[:, 0] > -np.inf) & (better < DOCUMENTS)
        for name in RETRIEVERS:
            leading[name][row] = within[kinds == name].any()
    return leading


def _best_of_documents(index: Index, query: Query) -> np.ndarray:
    """Return the score of the best text of every document by every expert of texts, of shape (experts, documents)."""
    corpora = index.corpora
    words, titles = corpora.words.matches(query.terms), corpora.titles.matches(query.terms)
    scoring, count = Scoring(index, query, words, titles), len(index.sections) - 1
    best = np.full((len(index.text_experts), len(corpora.layout.documents)), -np.inf, np.float32)
    for first in range(0, count, _SECTIONS):
        texts = scoring.of_sections(np.arange(first, min(first + _SECTIONS, count)))
        documents = corpora.layout.document_of[texts.pieces]
        starts = np.flatnonzero(np.diff(documents, prepend=-1))
        # A document may have sections in two blocks.
        here = np.maximum.reduceat(texts.scores, starts, axis=1)
        best[:, documents[starts]] = np.maximum(best[:, documents[starts]], here)
    return best
