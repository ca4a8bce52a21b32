"""Candidates of a few questions, made by hand."""

import numpy as np

from mog_assets.search.candidates import Candidates

EXPERTS = ("bm25-1", "bm25-2", "dense-1", "dense-2", "title", "mention")


def of_questions(scores, pieces=32, vocabulary=1.0):
    """Candidates of questions, given scores of shape (questions, candidates, experts)."""
    scores = np.asarray(scores, np.float32)
    questions, n, experts = scores.shape
    place = np.zeros((questions * n, 4), np.int32)
    place[:, 1] = pieces
    return Candidates(
        np.repeat(np.arange(questions), n),
        np.tile(np.arange(n), questions),
        scores.reshape(-1, experts),
        np.zeros((questions * n, 2, 2), np.float32),
        place,
        np.zeros(questions * n, np.int8),
        np.zeros(questions * n, np.int8),
        np.full(questions, vocabulary, np.float32),
    )
