"""Vectors of levels, pooled from those of level 1, and the nearest by products with all of them."""

import numpy as np
import pytest

from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import pool
from mog_assets.papers.level_search import nearest
from mog_assets.papers.level_search import vectors as module
from mog_assets.papers.level_search.nearest import exactly_nearest
from mog_assets.papers.level_search.vectors import LevelVectors, level_vectors
from mog_assets.resources.files import save_array


@pytest.fixture(scope="module")
def corpora(sample_project):
    tools = Tools(sample_project.settings)
    return Corpora.open(tools.store.read, sample_project.settings, list(sample_project.settings.corpora))


def anew(corpora):
    """The same, of which nothing is known yet."""
    return Corpora.open(corpora.read, corpora.settings, corpora.names)


def questions(number, size=384):
    rows = np.random.default_rng(number).normal(size=(number, size)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def products(table, given):
    """Products with all vectors."""
    return np.concatenate([of_block for _, of_block in table.product_blocks(given)], axis=1)


@pytest.mark.parametrize("block", [0, 1 << 16, 1 << 30])
@pytest.mark.parametrize("asked", [1, 12])
def test_products_are_those_with_every_vector_however_files_are_joined(corpora, monkeypatch, block, asked):
    monkeypatch.setattr(module, "_BLOCK_BYTES", block)
    given = questions(asked)
    table = level_vectors(anew(corpora), 1)
    assert sum(map(len, table.blocks)) == len(table)
    expected = given.astype(np.float64) @ np.array(list(table), np.float64).T
    np.testing.assert_allclose(products(table, given), expected, atol=2e-3)


@pytest.mark.parametrize("level", [2, 3, 5])
def test_pooled_vectors_are_the_same_bits_whichever_are_asked_for(corpora, level):
    table = level_vectors(anew(corpora), level)
    expected = pool(np.array(list(corpora.vectors)), corpora.layout, level)
    rows = np.random.default_rng(0).permutation(len(table))
    for every in (np.array(list(table)), np.concatenate(list(table.blocks))):
        np.testing.assert_array_equal(every, expected)
    np.testing.assert_array_equal(table.rows(rows), expected[rows])
    np.testing.assert_array_equal(table.rows(rows[:1]), expected[rows[:1]])


@pytest.mark.parametrize("kept", [0, 1 << 30])
@pytest.mark.parametrize("level", [1, 3])
def test_products_are_the_same_whatever_of_a_table_stays_in_memory(corpora, monkeypatch, level, kept):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 16)
    expected = products(level_vectors(anew(corpora), level), questions(9))
    monkeypatch.setattr(module, "_KEPT_BYTES", kept)
    table = level_vectors(anew(corpora), level)
    for _ in range(2):
        np.testing.assert_array_equal(products(table, questions(9)), expected)
    assert len(table._blocks) == (0 if kept == 0 else len(table._joined))


@pytest.mark.parametrize("asked", [1, 12])
def test_large_tables_stay_on_disk_and_give_the_same_products(tmp_path, monkeypatch, asked):
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{i}.npy" for i in range(3)]
    for path, rows in zip(paths, (5, 0, 9), strict=True):
        save_array(path, rng.normal(size=(rows, 16)).astype(np.float16))
    given = rng.normal(size=(asked, 16)).astype(np.float32)
    expected = products(LevelVectors(paths), given)
    monkeypatch.setattr(module, "_KEPT_BYTES", 100)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 0)
    table = LevelVectors(paths)
    assert table.widest == 9
    filled = [block for block in table.blocks if len(block)]
    assert all(np.shares_memory(block, table.parts[i]) for i, block in zip((0, 2), filled, strict=True))
    np.testing.assert_allclose(products(table, given), expected, atol=2e-2)
    monkeypatch.setattr(module, "_UNPACKED_AT_ONCE", 4)
    np.testing.assert_allclose(products(table, given), expected, atol=1e-5)
    assert [first for first, _ in table.product_blocks(given)] == [0, 5]


@pytest.mark.parametrize(("level", "k"), [(1, 7), (3, 50), (5, 1000)])
def test_exact_search_finds_the_greatest_of_all_products(corpora, level, k):
    given = questions(11)
    vectors = np.array(list(level_vectors(corpora, level)), np.float32)
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


def test_exact_search_of_questions_in_batches_is_that_of_all_at_once(corpora, monkeypatch):
    given = questions(11)
    whole = exactly_nearest(corpora, given, 2, 5)
    # Nine questions at a time, and two.
    monkeypatch.setattr(nearest, "_SCORES_BYTES", 9 * 4 * len(level_vectors(corpora, 2)))
    for (chunks, scores), (expected, values) in zip(exactly_nearest(corpora, given, 2, 5), whole, strict=True):
        np.testing.assert_allclose(scores, values, atol=2e-3)
        assert (chunks == expected).mean() > 0.9


@pytest.mark.parametrize("asked", [1, 12])
@pytest.mark.parametrize("grouped", [False, True])
def test_exact_search_does_not_depend_on_the_blocks_of_vectors(corpora, monkeypatch, asked, grouped):
    corpora = anew(corpora)
    rng = np.random.default_rng(asked)
    given = questions(asked)
    sizes = [layout.count(1) for layout in corpora.layouts]
    topics = [rng.integers(0, 3, size) for size in sizes]
    groups = rng.integers(-1, 3, asked) if grouped else None
    whole = exactly_nearest(corpora, given, 1, 9, groups, topics)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 0)
    blocks = exactly_nearest(anew(corpora), given, 1, 9, groups, topics)
    for (chunks, values), (expected, products) in zip(blocks, whole, strict=True):
        np.testing.assert_allclose(values, products, atol=2e-2)
        assert (chunks == expected).mean() > 0.9
        assert ((chunks < 0) == (expected < 0)).all()
