"""Vectors of coarser levels, pooled from those of level 1, and the ids of points."""

import numpy as np
import pytest

from mog_assets.chunking.chunks import Layout
from mog_assets.retrieval.vectors import point_ids, pool

# Lengths in characters of the level-1 chunks of two documents.
LENGTHS = [[10, 90, 40, 1, 500], [7]]


@pytest.mark.parametrize("level", [2, 3])
def test_pooled_vector_is_the_mean_weighted_by_characters(level):
    ends = [np.cumsum(lengths) for lengths in LENGTHS]
    spans = np.concatenate([np.stack([end - lengths, end], axis=1) for end, lengths in zip(ends, LENGTHS, strict=True)])
    offsets = np.cumsum([0, *map(len, LENGTHS)])
    finest = np.random.default_rng(0).normal(size=(len(spans), 8)).astype(np.float16)
    expected, width = [], 2 ** (level - 1)
    for first, lengths in zip(offsets, LENGTHS, strict=False):
        for start in range(0, len(lengths), width):
            weights = np.array(lengths[start : start + width], float)
            rows = finest[first + start : first + start + len(weights)].astype(float)
            mean = (weights[:, None] * rows).sum(axis=0) / weights.sum()
            expected.append(mean / np.linalg.norm(mean))
    found = pool(finest, Layout("c", ["a", "b"], offsets, spans), level)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_whatever_differs_in_a_point_gives_it_another_id():
    def ids(corpus="c", document="a", spans=((0, 9), (9, 20)), level=1, vectors=((1, 0), (0, 1))):
        layout = Layout(corpus, [document], np.array([0, len(spans)]), np.array(spans))
        return point_ids(corpus, layout, level, np.array(vectors, np.float16))

    others = [
        ids(corpus="d"),
        ids(document="b"),
        # The same places and another text of the same length: an edit.
        ids(vectors=((0.6, 0.8), (0, 1))),
        ids(spans=((0, 8), (8, 20))),
        ids(level=2, spans=((0, 4), (4, 9)), vectors=((1, 0),)),
    ]
    first, second = ids()
    assert first != second and ids() == [first, second]
    assert first not in [found[0] for found in others]
    # What did not change keeps its point.
    assert others[2][1] == second
