"""How deep runs are: as many passages as measures use."""

from __future__ import annotations

import numpy as np

from mog_assets.resources.arrays import first_of_each, running
from mog_assets.search.passages import Passages

# Context lengths, in characters, at which evidence recall is measured.
CONTEXTS = (1000, 2000, 4000, 8000)
# A run is deep enough for every measure: the characters of the longest context, and the documents of nDCG@10.
CONTEXT_CHARS = CONTEXTS[-1]
DOCUMENTS = 10
DEPTH = 50


def cut(passages: Passages, k: int) -> Passages:
    """Return only the passages that measures use: `CONTEXT_CHARS` characters, `DOCUMENTS` documents, k passages."""
    length = passages.end - passages.start
    return passages.at(seen(passages.question, passages.rank, passages.document, length, k))


def seen(question: np.ndarray, rank: np.ndarray, document: np.ndarray, length: np.ndarray, k: int) -> np.ndarray:
    """Return mask of the rows that any measure uses; a passage is used as a whole."""
    new = np.zeros(len(question), np.int64)
    new[first_of_each(question, document)] = 1
    filling = running(length, question) < CONTEXT_CHARS
    rows = (running(new, question) < DOCUMENTS) | filling | (rank < k)
    last = np.full(int(question.max(initial=-1)) + 1, -1)
    np.maximum.at(last, question[rows], rank[rows])
    return rank <= last[question]
