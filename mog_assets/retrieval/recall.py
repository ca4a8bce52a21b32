"""Evidence recall of passages that are numbers already: what length_norm and `levels: auto` are decided by."""

from __future__ import annotations

import numpy as np

from mog_assets.arrays import pairs, ranges, running
from mog_assets.retrieval.methods import CONTEXTS, Passages


def evidence_recall(found: Passages, gold: Passages, questions: int) -> np.ndarray:
    """`ER` of every question, as `evaluation.measures` has it, for passages that have no character in common.

    Args:
        found: Ranked passages, a span each, those of a question disjoint.
        gold: Gold evidence, at least one character for every question, spans of a question disjoint.
        questions: Their number.

    Returns:
        float64 array of shape (questions,) in 0 … 1: the mean over contexts c of the share of min(gold characters, c)
        that the first c characters of passages cover.
    """
    length = found.end - found.start
    before = running(length, found.question)
    order = np.argsort(pairs(gold.question, gold.document), kind="stable")
    keys, asked = pairs(gold.question, gold.document)[order], pairs(found.question, found.document)
    first, last = np.searchsorted(keys, asked, side="left"), np.searchsorted(keys, asked, side="right")
    row, piece = np.repeat(np.arange(len(asked)), last - first), order[ranges(first, last)]
    low = np.maximum(found.start[row], gold.start[piece])
    characters = np.bincount(gold.question, weights=gold.end - gold.start, minlength=questions)
    total = np.zeros(questions)
    for context in CONTEXTS:
        room = np.clip(context - before[row], 0, length[row])
        covered = np.maximum(np.minimum(found.start[row] + room, gold.end[piece]) - low, 0)
        held = np.bincount(found.question[row], weights=covered, minlength=questions)
        total += held / np.minimum(characters, context)
    return total / len(CONTEXTS)
