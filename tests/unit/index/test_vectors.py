"""Vectors of coarser levels, pooled from those of level 1, products with vectors, and what points tell."""

import numpy as np
import pytest

from mog_assets.build.tools import Tools
from mog_assets.index import vectors as module
from mog_assets.index.corpora import Corpora
from mog_assets.index.vectors import VectorTable, pool, vector_buckets
from mog_assets.search.nearest import exactly_nearest, linked_nearest
from mog_assets.text.chunks import Layout

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


@pytest.fixture(scope="module")
def corpora(sample_project):
    tools = Tools(sample_project.settings)
    return Corpora.open(tools.store.read, sample_project.settings, list(sample_project.settings.corpora), keep=True)


def questions(number, size=384):
    rows = np.random.default_rng(number).normal(size=(number, size)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("asked", [1, 12])
@pytest.mark.parametrize("level", [2, 5])
def test_pooled_products_are_close_to_products_with_pooled_vectors(corpora, level, asked):
    given = questions(asked)
    finest, pooled = corpora.vectors(1), corpora.vectors(level)
    found = corpora.pooling(level).pooled(finest.products(given))
    assert found.shape == (asked, len(pooled)) == (asked, corpora.layout.count(level))
    np.testing.assert_allclose(found, pooled.products(given), atol=2e-3)
    assert np.abs(found).max() > 0.1


@pytest.mark.parametrize("block", [0, 1 << 16, 1 << 30])
@pytest.mark.parametrize("asked", [1, 12])
def test_products_are_those_with_every_vector_however_files_are_joined(corpora, monkeypatch, block, asked):
    monkeypatch.setattr(module, "_BLOCK_BYTES", block)
    given = questions(asked)
    table = VectorTable([part.base.filename for part in corpora.vectors(1).parts])
    assert sum(map(len, table.blocks)) == len(table)
    expected = given.astype(np.float64) @ np.array(list(table), np.float64).T
    np.testing.assert_allclose(table.products(given), expected, atol=2e-3)


@pytest.mark.parametrize("level", [2, 3, 5])
def test_pooled_vectors_are_the_same_bits_whichever_are_asked_for(corpora, monkeypatch, level):
    table, layout = corpora.vectors(level), corpora.layout
    expected = pool(np.concatenate(corpora.vectors(1).parts), layout, level)
    buckets = [
        bucket.open()
        for name in corpora.names
        for bucket in vector_buckets(lambda key, name=name: corpora.read(key, name), level)
    ]
    rows = np.random.default_rng(0).permutation(len(table))
    monkeypatch.setattr(module, "_POOLED_AT_ONCE", 3)
    few = [vector_buckets(lambda key: corpora.read(key, corpora.names[0]), level)[0].open()]
    for found in (np.array(list(table)), np.concatenate(buckets), np.concatenate(list(table.blocks))):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(table.rows(rows), expected[rows])
    np.testing.assert_array_equal(table.rows(rows[:1]), expected[rows[:1]])
    np.testing.assert_array_equal(few[0], buckets[0])
    # What is stored divides the sums.
    held = corpora.pooling(level).lengths
    sums = np.add.reduceat(
        np.concatenate(corpora.vectors(1).parts).astype(np.float32) * np.diff(layout.spans, axis=1).astype(np.float32),
        corpora.pooling(level).first,
    )
    np.testing.assert_array_equal((sums / held[:, None]).astype(np.float16), expected)


@pytest.mark.parametrize("kept", [0, 1 << 30])
@pytest.mark.parametrize("level", [1, 3])
def test_products_are_the_same_whatever_of_a_table_stays_in_memory(corpora, monkeypatch, level, kept):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 16)
    corpora = Corpora.open(corpora.read, corpora.settings, corpora.names)
    expected = corpora.vectors(level).products(questions(9))
    monkeypatch.setattr(module, "_KEPT_BYTES", kept)
    table = corpora.vectors(level)
    for _ in range(2):
        np.testing.assert_array_equal(table.products(questions(9)), expected)
    assert len(table._kept) == (0 if kept == 0 else len(table._joined))


@pytest.mark.parametrize(("level", "k"), [(1, 7), (3, 50), (5, 1000)])
def test_exact_search_finds_the_greatest_of_all_products(corpora, level, k):
    given = questions(11)
    vectors = np.array(list(corpora.vectors(level)), np.float32)
    starts = [*corpora.starts(level).tolist(), len(vectors)]
    found = exactly_nearest(corpora, given, level, k)
    assert len(found) == len(corpora.names)
    for (chunks, scores), first, last in zip(found, starts, starts[1:], strict=False):
        products = given @ vectors[first:last].T
        held = min(k, last - first)
        for row, own, values in zip(products, chunks, scores, strict=True):
            # Two vectors may differ by less than their products are rounded.
            np.testing.assert_allclose(values[:held], np.sort(row)[::-1][:held], atol=1e-5)
            np.testing.assert_allclose(row[own[:held]], values[:held], atol=1e-5)
            assert len(set(own[:held].tolist())) == held
            assert (own[held:] == -1).all() and (values[held:] == 0).all()


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("few", [0, 16_000])
def test_a_search_by_shards_finds_the_nearest_of_each_corpus(corpora, monkeypatch, grouped, few):
    monkeypatch.setattr("mog_assets.index.neighbours.FEW", few)
    given, rng = questions(5), np.random.default_rng(3)
    topics = [rng.integers(0, 3, layout.count(1)) for layout in corpora.layouts]
    limits = (rng.integers(-1, 3, 5), topics) if grouped else ()
    exactly = exactly_nearest(corpora, given, 1, 9, *limits)
    for (chunks, values), (expected, products) in zip(linked_nearest(corpora, given, 9, *limits), exactly, strict=True):
        np.testing.assert_allclose(values, products, atol=2e-3)
        assert (chunks == expected).mean() > 0.9


def test_exact_search_of_questions_in_batches_is_that_of_all_at_once(corpora, monkeypatch):
    given = questions(11)
    whole = exactly_nearest(corpora, given, 2, 5)
    # Nine questions at a time, and two.
    monkeypatch.setattr("mog_assets.search.nearest._SCORES_BYTES", 9 * 4 * len(corpora.vectors(2)))
    for (chunks, scores), (expected, values) in zip(exactly_nearest(corpora, given, 2, 5), whole, strict=True):
        np.testing.assert_allclose(scores, values, atol=2e-3)
        assert (chunks == expected).mean() > 0.9


@pytest.mark.parametrize("asked", [1, 12])
@pytest.mark.parametrize("grouped", [False, True])
def test_exact_search_does_not_depend_on_the_blocks_of_vectors(corpora, monkeypatch, asked, grouped):
    corpora = Corpora.open(corpora.read, corpora.settings, corpora.names)
    rng = np.random.default_rng(asked)
    given = questions(asked)
    sizes = [layout.count(1) for layout in corpora.layouts]
    topics = [rng.integers(0, 3, size) for size in sizes]
    groups = rng.integers(-1, 3, asked) if grouped else None
    whole = exactly_nearest(corpora, given, 1, 9, groups, topics)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 0)
    blocks = exactly_nearest(corpora, given, 1, 9, groups, topics)
    for (chunks, values), (expected, products) in zip(blocks, whole, strict=True):
        np.testing.assert_allclose(values, products, atol=2e-2)
        assert (chunks == expected).mean() > 0.9
        assert ((chunks < 0) == (expected < 0)).all()
