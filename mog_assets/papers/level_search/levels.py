"""Chunks of levels as passages."""

from __future__ import annotations

import numpy as np

from mog_assets.papers.level_search.searchers import LevelMatches
from mog_assets.resources.arrays import places
from mog_assets.search.passages import Passages
from mog_assets.text.chunks import Layout


def level_passages(layout: Layout, matches: LevelMatches, levels: np.ndarray) -> Passages:
    """Return one span each.

    Args:
        layout: Of all corpora.
        matches: Chunks, by question, best first.
        levels: Of the chunks, shape (hits,).
    """
    document, start, end = (np.empty(len(matches.chunk), np.int64) for _ in range(3))
    for level in np.unique(levels):
        rows = levels == level
        document[rows], start[rows], end[rows] = layout.chunk_spans(matches.chunk[rows], int(level))
    return Passages(matches.question, places(matches.question), document, start, end, levels, matches.score)
