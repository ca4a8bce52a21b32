"""Vectors of level 1 and those pooled from them, and what points tell."""

import numpy as np
import pytest

from mog_assets.build.tools import Tools
from mog_assets.index import encoding
from mog_assets.index import vectors as module
from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import pool, vector_buckets
from mog_assets.index.vectors import VectorTable


@pytest.fixture(scope="module")
def corpora(sample_project):
    tools = Tools(sample_project.settings)
    return Corpora.open(tools.store.read, sample_project.settings, list(sample_project.settings.corpora))


def stored(corpora):
    """All vectors of level 1."""
    return np.concatenate([np.load(path) for path in corpora.bucket_files("embeddings/level_1")])


@pytest.mark.parametrize("level", [2, 3, 5])
def test_pooled_vectors_are_the_same_bits_a_bucket_at_a_time_and_by_what_divides_their_sums(
    corpora, monkeypatch, level
):
    finest, layout = stored(corpora), corpora.layout
    expected = pool(finest, layout, level)
    monkeypatch.setattr(encoding, "_POOLED_AT_ONCE", 3)
    buckets = [
        bucket
        for name in corpora.names
        for bucket in vector_buckets(lambda key, name=name: corpora.read(key, name), level)
    ]
    assert sum(bucket.count for bucket in buckets) == len(expected)
    np.testing.assert_array_equal(np.concatenate([bucket.open() for bucket in buckets]), expected)
    first, _ = layout.covered(np.arange(layout.count(level)), level)
    sums = np.add.reduceat(finest.astype(np.float32) * np.diff(layout.spans, axis=1).astype(np.float32), first)
    divided = sums / corpora.pooled_lengths[level][:, None]
    np.testing.assert_array_equal(divided.astype(np.float16), expected)


@pytest.fixture(params=[0, 1 << 30])
def table(request, corpora, monkeypatch):
    """Vectors of level 1, mapped or in memory."""
    monkeypatch.setattr(module, "MEMORY_BYTES", request.param)
    return VectorTable(corpora.bucket_files("embeddings/level_1"))


def test_rows_of_a_table_are_those_of_its_files_in_any_order(corpora, table):
    every = stored(corpora)
    assert len(table) == len(every) == corpora.layout.count(1) and table.size == every.shape[1]
    np.testing.assert_array_equal(np.array(list(table)), every)
    rows = np.random.default_rng(0).permutation(len(every))
    for some in (rows, np.sort(rows[:40]), rows[:1], rows[:0]):
        np.testing.assert_array_equal(table.rows(some), every[some])
        np.testing.assert_array_equal(table.float_rows(some), every[some].astype(np.float32))
