"""The granularity mix: level-1 chunks ranked by the weighted scores of the chunks that contain them.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.1 and figure 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.corpus.chunks import Layout
from mog_assets.retrieval.search import Hits


@dataclass(frozen=True)
class Candidates:
    """Level-1 chunks that lie in at least one retrieved chunk of any level, in order of corpus and number.

    Attributes:
        corpus, finest: int64 arrays of shape (n,).
        scores: t(c), float64 of shape (n, levels): the score of the level-g chunk that contains the candidate where
            that chunk was retrieved, else 0.
    """

    corpus: np.ndarray
    finest: np.ndarray
    scores: np.ndarray


def candidates(hits: Sequence[Hits], layouts: Sequence[Layout]) -> Candidates:
    """Spread the chunks retrieved at each level over the level-1 chunks they contain.

    Args:
        hits: Per level, finest first: the k_r best chunks of each corpus.
        layouts: Per corpus.
    """
    corpora, finest, levels, scores = [], [], [], []
    for number, found in enumerate(hits):
        for corpus in np.unique(found.corpus):
            here = found.corpus == corpus
            first, last = layouts[corpus].covered(found.chunk[here], number + 1)
            widths = last - first
            starts = np.repeat(first - np.concatenate([[0], np.cumsum(widths)[:-1]]), widths)
            covered = starts + np.arange(widths.sum())
            corpora.append(np.full(len(covered), corpus))
            finest.append(covered)
            levels.append(np.full(len(covered), number))
            scores.append(np.repeat(found.score[here], widths))
    if not corpora:
        return Candidates(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, len(hits))))
    corpus, chunk = np.concatenate(corpora), np.concatenate(finest)
    base = np.concatenate([[0], np.cumsum([layout.count(1) for layout in layouts])])
    distinct, where = np.unique(base[corpus] + chunk, return_inverse=True)
    table = np.zeros((len(distinct), len(hits)))
    table[where, np.concatenate(levels)] = np.concatenate(scores)
    owner = np.searchsorted(base, distinct, side="right") - 1
    return Candidates(owner, distinct - base[owner], table)


def first_of_each(corpus: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Positions, ascending, at which a pair of corpus and number (of a chunk, of a document) occurs first."""
    # Numbers are far below 2^40; sorting one integer a pair is an order of magnitude faster than sorting pairs.
    _, first = np.unique((corpus << 40) | number, return_index=True)
    return np.sort(first)


def emission_level(weights: np.ndarray) -> int | None:
    """g_r: the level with the greatest weight that is not 0, the finer one of equals; None if all are 0."""
    return int(np.argmax(weights)) + 1 if np.any(weights > 0) else None


def mix(found: Candidates, weights: np.ndarray, level: int, layouts: Sequence[Layout]) -> Hits:
    """Rank candidates by t(c)·w and emit, for each, the chunk at `level` that contains it; each chunk once.

    Args:
        found: The candidates.
        weights: float array of shape (levels,).
        level: Level of the chunks to emit.
        layouts: Per corpus.
    """
    order = np.argsort(-(found.scores @ weights), kind="stable")
    corpus, finest = found.corpus[order], found.finest[order]
    chunk = np.empty_like(finest)
    for number in np.unique(corpus):
        here = corpus == number
        chunk[here] = layouts[number].containing(finest[here], level)
    kept = first_of_each(corpus, chunk)
    return Hits(corpus[kept], chunk[kept], (found.scores @ weights)[order][kept])
