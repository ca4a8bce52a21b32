"""Candidates of a few questions, made by hand, and layouts of documents."""

import numpy as np

from mog_assets.search.candidates import Candidates
from mog_assets.text.chunks import Layout

EXPERTS = ("bm25-1", "bm25-2", "dense-1", "dense-2", "title", "mention")


def candidates_of(question, piece, scores, place=None, **more):
    """Candidates, given question, piece and scores of each; what is not given is 0, and every word is known."""
    n, questions = len(piece), int(np.max(question, initial=-1)) + 1
    scores = np.asarray(scores, np.float32)
    values = {"rare": np.zeros(n), "title": np.zeros(n), "beside": np.zeros((n, 2, 1))}
    values |= {"vocabulary": np.ones(questions)} | more
    return Candidates(
        np.asarray(question, np.int64),
        np.asarray(piece, np.int64),
        scores if scores.ndim == 2 else scores[:, None],
        np.asarray(values["beside"], np.float32),
        np.zeros((n, 4), np.int32) if place is None else np.asarray(place, np.int32),
        np.broadcast_to(np.asarray(values["rare"], np.int8), n).copy(),
        np.broadcast_to(np.asarray(values["title"], np.int8), n).copy(),
        np.asarray(values["vocabulary"], np.float32),
    )


def of_questions(scores, pieces=32, vocabulary=1.0):
    """Candidates of questions, given scores of shape (questions, candidates, experts)."""
    questions, n, experts = np.shape(scores)
    place = np.zeros((questions * n, 4), np.int32)
    place[:, 1] = pieces
    scores, beside = np.reshape(scores, (-1, experts)), np.zeros((questions * n, 2, 2))
    known = np.full(questions, vocabulary)
    question, piece = np.repeat(np.arange(questions), n), np.tile(np.arange(n), questions)
    return candidates_of(question, piece, scores, place, beside=beside, vocabulary=known)


def layout_of(sizes):
    """One document per list of sizes of its pieces."""
    offsets = np.cumsum([0, *map(len, sizes)])
    spans = [(int(end) - size, int(end)) for own in sizes for size, end in zip(own, np.cumsum(own), strict=True)]
    return Layout("", [f"d{i}" for i in range(len(sizes))], offsets, np.array(spans, np.int64).reshape(-1, 2))
