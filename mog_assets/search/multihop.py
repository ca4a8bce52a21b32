"""`multihop`: what the question finds, and what it finds together with its best piece, in turn.

A question over several documents ("the president of the association that published …") shares words with the first of
them alone. Once that is found, question and piece together find the next. Two lists are merged and not summed: what
only the second one finds would otherwise stay behind everything that the question itself finds a little of.

References: Xiong et al. 2021 (dense retrieval in several steps), for searching with the question and what was found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mog_assets.config.budget import Budget
from mog_assets.resources.arrays import pairs, places
from mog_assets.search.methods import Method, parse
from mog_assets.search.passages import Passages, joined
from mog_assets.search.retrieval import Retrieval

# A piece of the second list comes after so many of the first.
AFTER = 2


def merged(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], after: int = AFTER
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two lists of pieces as one, each piece once.

    Args:
        first: Question and piece, by question, best first.
        second: Likewise.
        after: A piece of the second list comes after so many of the first.

    Returns:
        Question, piece, and a score that falls with the place: 1 for the best.
    """
    question, piece = (np.concatenate(both) for both in zip(first, second, strict=True))
    place = np.concatenate([places(first[0]).astype(float), after * (places(second[0]) + 1) - 0.5])
    order = np.lexsort((place, question))
    _, where = np.unique(pairs(question, piece)[order], return_index=True)
    unique = order[np.sort(where)]
    return question[unique], piece[unique], 1 / (1 + place[unique])


def following(vectors: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return vectors of questions together with their best pieces: unit vectors, float32 of shape (questions, size).

    Args:
        vectors: Of the questions.
        best: Of the pieces, 0 where nothing was found.
    """
    both = np.asarray(vectors, np.float32) + np.asarray(best, np.float32)
    return both / np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-12)


def ranked_again(retrieval: Retrieval, method: Method, of_group: Any = None) -> Passages:
    """Return the best pieces for every question, in turn with what it finds together with the best one."""
    question, piece, _ = retrieval.by_score(method)
    second = _following(retrieval, question, piece).by_score(method)
    return retrieval.of_pieces(*merged((question, piece), second[:2]))


def passages_after(retrieval: Retrieval, question: np.ndarray, piece: np.ndarray, budget: Budget) -> Passages:
    """Return as passages what was read, in turn with what the questions find together with the best of it.

    Args:
        retrieval: The questions.
        question: Positions of the questions of what was read, by question, best first.
        piece: What was read.
        budget: Most of it.
    """
    method = parse("multihop", retrieval.index.settings)
    second = _following(retrieval, question, piece).by_score(method)
    pieces = retrieval.of_pieces(*merged((question, piece), second[:2], 1))
    return joined(pieces, retrieval.corpora.layout, budget.amount, sizes=retrieval.sizes(budget))


def _following(retrieval: Retrieval, question: np.ndarray, piece: np.ndarray) -> Retrieval:
    """Return the same for questions together with their best pieces; nothing is encoded for that.

    Args:
        retrieval: The questions.
        question: Positions of the questions of some pieces, by question, best first.
        piece: The pieces.
    """
    layout, first = retrieval.corpora.layout, np.flatnonzero(places(question) == 0)
    best = np.zeros((len(retrieval.queries), retrieval.vectors.shape[1]), np.float32)
    best[question[first]] = retrieval.corpora.vectors.rows(piece[first])
    documents = layout.document_of[piece[first]].tolist()
    texts, queries = retrieval.corpora.texts(documents), list(retrieval.queries)
    for number, document, (start, end) in zip(
        question[first].tolist(), documents, layout.spans[piece[first]].tolist(), strict=True
    ):
        title, text = texts[document]
        queries[number] = f"{queries[number]} {title} {text[start:end]}"
    return retrieval.with_queries(queries, following(retrieval.vectors, best))
