"""Hits of several corpora and shards, the best of blocks of vectors, and fusion of searchers."""

from collections import Counter

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sharded import built, level_texts, opened, samples

from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import pool
from mog_assets.index.term_counts import TermCounts
from mog_assets.papers.level_search import vectors as module
from mog_assets.papers.level_search.bm25 import Bm25Index, statistics
from mog_assets.papers.level_search.fusion import reciprocal_rank_fusion
from mog_assets.papers.level_search.search import counts
from mog_assets.papers.level_search.searchers import Bm25Searcher, LevelMatches, keep_best
from mog_assets.papers.level_search.vectors import LevelRows, level_vectors, nearest
from mog_assets.text.terms import tokenise


def test_best_per_corpus_keeps_the_order():
    # Chunks below 10 are of the first corpus, the others of the second.
    question, chunk = np.array([0, 0, 0, 0, 0, 1]), np.array([15, 6, 17, 18, 9, 19])
    best = LevelMatches(question, chunk, np.array([5.0, 4, 3, 2, 1, 1])).best_per_corpus(2, np.array([0, 10]))
    assert list(zip(best.question, best.chunk, best.score, strict=True)) == [
        (0, 15, 5),
        (0, 6, 4),
        (0, 17, 3),
        (0, 9, 1),
        (1, 19, 1),
    ]
    none = np.zeros(0, np.int64)
    assert len(LevelMatches(none, none, np.zeros(0)).best_per_corpus(2, np.array([0, 10])).chunk) == 0


@st.composite
def divided_corpora(draw):
    """Counts of some corpora, whole and cut into shards, each with the terms that it has."""
    words, corpora = 6, draw(st.integers(1, 3))
    whole, parts, starts = [], [], [0]
    for _ in range(corpora):
        rows = draw(st.lists(st.lists(st.integers(0, 3), min_size=words, max_size=words), min_size=1, max_size=9))
        matrix = np.array(rows)
        cuts = sorted(draw(st.sets(st.integers(1, len(rows)), max_size=4)) - {len(rows)})
        whole.append(counts_of(matrix))
        parts.append([counts_of(part) for part in np.split(matrix, cuts)])
        starts.append(starts[-1] + len(rows))
    queries = draw(st.lists(st.lists(st.sampled_from([f"w{i}" for i in range(words)]), max_size=4), min_size=1))
    return whole, parts, np.array(starts[:-1]), queries[:5]


def counts_of(matrix):
    """Term counts of rows of words; a term that is in none of them is not in the vocabulary."""
    there = np.flatnonzero(matrix.any(axis=0))
    held = sparse.csc_matrix(matrix[:, there])
    return TermCounts([f"w{i}" for i in there], held.indptr, held.indices, held.data, matrix.sum(axis=1))


@given(divided_corpora(), st.integers(1, 8), st.booleans())
@settings(deadline=None)
def test_shards_give_the_hits_and_scores_of_whole_corpora(divided, k, grouped):
    whole, parts, starts, queries = divided
    over = statistics(whole)
    assert over == statistics([part for own in parts for part in own])
    rng = np.random.default_rng(k)
    sizes = [len(own.lengths) for own in whole]
    topics = [rng.integers(0, 2, size) for size in sizes]

    def found(indexes):
        asked = rng_groups if grouped else None
        return Bm25Searcher(queries, lambda _: indexes, lambda _: starts, asked, lambda _: topics).search(1, k)

    rng_groups = rng.integers(-1, 2, len(queries))
    one = found([Bm25Index(own, over, 1.5, 0.75) for own in whole])
    many = found([Bm25Index(part, over, 1.5, 0.75) for own in parts for part in own])
    # A search looks at eight results more than asked for, so that here all that are equal are seen.
    for expected, own in zip(vars(one).values(), vars(many).values(), strict=True):
        np.testing.assert_array_equal(own, expected)


@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=20),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.integers(1, 7),
)
def test_the_best_of_blocks_are_the_best_of_all(columns, widths, k):
    products = np.array(columns, np.float32).T
    products[products == -3] = -np.inf
    chunks, best = np.full((3, k), -1, np.int64), np.zeros((3, k))
    ends = np.cumsum(widths)
    for first, last in zip([0, *ends], [*ends, products.shape[1]], strict=True):
        if first < last and first < products.shape[1]:
            keep_best(chunks, best, products[:, first:last], first)
    for row, own, held in zip(products, chunks, best, strict=True):
        order = [i for i in np.argsort(-row, kind="stable") if row[i] > -np.inf][:k]
        assert own.tolist() == order + [-1] * (k - len(order))
        assert held.tolist() == [*row[order].tolist(), *[0] * (k - len(order))]


# Fusion


def test_reciprocal_rank_fusion_by_hand():
    rankings = [([0, 0, 1], [1, 2, 7]), ([0, 0], [2, 10])]
    found = reciprocal_rank_fusion([(np.array(question), np.array(thing)) for question, thing in rankings])
    assert [column.tolist() for column in found[:2]] == [[0, 0, 0, 1], [2, 1, 10, 7]]
    np.testing.assert_allclose(found[2], [1 / 102 + 1 / 101, 1 / 101, 1 / 102, 1 / 101])


def test_fusion_of_equal_scores_goes_to_the_smaller_number():
    one = np.zeros(1, np.int64)
    _, things, _ = reciprocal_rank_fusion([(one, np.array([14])), (one, np.array([9]))])
    assert things.tolist() == [9, 14]


# BM25 of the chunks of a level, and the counts of levels, from those of level 1


def term_counts(chunks):
    terms = sorted({term for chunk in chunks for term in chunk})
    number = {term: i for i, term in enumerate(terms)}
    rows = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
    columns = [number[term] for chunk in chunks for term in chunk]
    matrix = sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, columns)), (len(chunks), len(terms))).tocsc()
    matrix.sort_indices()
    return TermCounts(terms, matrix.indptr, matrix.indices, matrix.data, np.array([len(chunk) for chunk in chunks]))


def random_chunks(n, seed, words=400):
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, words + 1)
    chances /= chances.sum()
    return [[f"w{i}" for i in rng.choice(words, rng.integers(20, 120), p=chances)] for _ in range(n)]


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (1.2, 0.0)])
def test_scores_are_those_of_bm25s(k1, b):
    chunks = random_chunks(200, 0)
    queries = [chunk[:8] for chunk in random_chunks(20, 1)]
    counts = term_counts(chunks)
    found, scores = Bm25Index(counts, statistics([counts]), k1, b).search(queries, 200)
    reference = bm25s.BM25(method="lucene", k1=k1, b=b)
    reference.index(chunks, show_progress=False)
    for query, row, values in zip(queries, found, scores, strict=True):
        expected = reference.get_scores([term for term in query if term in set(counts.terms)])
        row, values = row[row >= 0], values[row >= 0]
        assert set(row) == set(np.flatnonzero(expected > 0))
        np.testing.assert_allclose(values, expected[row], rtol=1e-4)
        assert (np.diff(values) <= 0).all()


def test_batches_and_single_questions_agree():
    counts = term_counts(random_chunks(500, 2))
    queries = [chunk[:10] for chunk in random_chunks(80, 3)]
    queries[5], queries[6] = [], ["unseen"]
    index = Bm25Index(counts, statistics([counts]), 1.5, 0.75)
    chunks, scores = index.search(queries, 10)
    for row, query in enumerate(queries):
        one, values = index.search([query], 10)
        np.testing.assert_array_equal(one[0], chunks[row])
        np.testing.assert_allclose(values[0], scores[row], rtol=1e-5)
    assert (chunks[5:7] == -1).all()
    assert (scores[5:7] == 0).all()


@pytest.mark.parametrize("questions", [1, 70])
def test_equal_scores_go_to_the_smaller_chunk(questions):
    counts = term_counts([["x", "y"], ["a", "b"], ["a", "c"], ["a", "d"], ["z", "z"]])
    found, scores = Bm25Index(counts, statistics([counts]), 1.5, 0.75).search([["a"]] * questions, 4)
    assert found.tolist() == [[1, 2, 3, -1]] * questions
    assert (scores[:, 3] == 0).all()


# Counts of levels


@pytest.fixture(scope="module")
def in_shards(tmp_path_factory):
    """The sample corpora up to their BM25 counts, in many shards."""
    return opened(built(samples(), tmp_path_factory.mktemp("shards"), 8))


@pytest.mark.parametrize("level", [1, 2, 3, 5])
def test_counts_of_a_level_are_those_of_its_texts(in_shards, level):
    texts = level_texts(in_shards, level)
    ids, terms = tokenise(texts)
    rows = [row for part in counts(in_shards, level) for row in held_by(part)]
    assert len(rows) == len(texts) == in_shards.layout.count(level)
    assert rows == [Counter(terms[i] for i in row) for row in ids]
    lengths = np.concatenate([part.lengths for part in counts(in_shards, level)])
    assert lengths.tolist() == [len(row) for row in ids]


def held_by(part):
    """The terms of every chunk, and how often it has each."""
    matrix = sparse.csc_matrix((part.counts, part.indices, part.indptr), (len(part.lengths), len(part.terms))).tocsr()
    assert (matrix.data > 0).all()
    for row in matrix:
        yield Counter({part.terms[i]: int(n) for i, n in zip(row.indices, row.data, strict=True)})


# Vectors of levels, pooled from those of level 1, and the nearest by products with all of them


@pytest.fixture(scope="module")
def corpora(sample_project):
    tools = Tools(sample_project.settings)
    return Corpora.open(tools.store.read, sample_project.settings, list(sample_project.settings.corpora))


def questions(number, size=384):
    rows = np.random.default_rng(number).normal(size=(number, size)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("level", [1, 2, 5])
def test_pooled_vectors_are_the_same_bits_whichever_are_asked_for(corpora, level):
    pieces = corpora.vectors.rows(np.arange(corpora.layout.count(1)))
    expected = pieces if level == 1 else pool(pieces, corpora.layout, level)
    np.testing.assert_array_equal(np.concatenate(sum(level_vectors(corpora, level), [])), expected)
    rows = np.random.default_rng(0).permutation(len(expected))
    np.testing.assert_array_equal(LevelRows(corpora, level).rows(rows), expected[rows])


@pytest.mark.parametrize(("level", "k"), [(1, 7), (3, 50), (5, 1000)])
@pytest.mark.parametrize("products_bytes", [1 << 28, 1 << 9])
def test_search_finds_the_greatest_of_all_products(corpora, monkeypatch, level, k, products_bytes):
    monkeypatch.setattr(module, "_PRODUCTS_BYTES", products_bytes)
    given, parts = questions(11), level_vectors(corpora, level)
    found = nearest(parts, given, k)
    assert len(found) == len(corpora.names)
    for (chunks, scores), arrays in zip(found, parts, strict=True):
        products = given @ np.concatenate(arrays).astype(np.float32).T
        held = min(k, products.shape[1])
        for row, own, values in zip(products, chunks, scores, strict=True):
            # Two vectors may differ by less than their products are rounded.
            np.testing.assert_allclose(values[:held], np.sort(row)[::-1][:held], atol=1e-5)
            np.testing.assert_allclose(row[own[:held]], values[:held], atol=1e-5)
            assert len(set(own[:held].tolist())) == held
            assert (own[held:] == -1).all() and (values[held:] == 0).all()


def test_search_within_groups_finds_the_best_of_its_own(corpora):
    rng, given, parts = np.random.default_rng(1), questions(12), level_vectors(corpora, 1)
    topics = [rng.integers(0, 3, sum(map(len, arrays))) for arrays in parts]
    groups = rng.integers(-1, 3, 12)
    for (chunks, _), arrays, own in zip(nearest(parts, given, 9, groups, topics), parts, topics, strict=True):
        products = given @ np.concatenate(arrays).astype(np.float32).T
        for row, group, found in zip(products, groups, chunks, strict=True):
            members = np.flatnonzero(own == group)
            assert set(found[found >= 0]) == set(members[np.argsort(-row[members])][:9])
