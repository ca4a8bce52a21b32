"""Vectors of coarser levels, pooled from those of level 1."""

import numpy as np
import pytest

from mog_assets.chunking.chunks import Layout
from mog_assets.retrieval.vectors import pool

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
