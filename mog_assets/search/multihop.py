"""`multihop`: what the question finds, and what it finds together with its best piece, in turn.

A question over several documents ("the president of the association that published …") shares words with the first of
them alone. Once that is found, question and piece together find the next. Two lists are merged and not summed: what
only the second one finds would otherwise stay behind everything that the question itself finds a little of.

References: Xiong et al. 2021 (dense retrieval in several steps), for searching with the question and what was found.
"""

from __future__ import annotations

import numpy as np

from mog_assets.resources.arrays import pairs, places

# A piece of the second list comes after so many of the first.
AFTER = 2


def merged(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], after: int = AFTER
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two lists of pieces as one, each piece once.

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
    kept = order[np.sort(where)]
    return question[kept], piece[kept], 1 / (1 + place[kept])


def following(vectors: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Vectors of questions together with their best pieces: unit vectors, float32 of shape (questions, size).

    Args:
        vectors: Of the questions.
        best: Of the pieces, 0 where nothing was found.
    """
    both = np.asarray(vectors, np.float32) + np.asarray(best, np.float32)
    return both / np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-12)
