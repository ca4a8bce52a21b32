"""Hits of several corpora and shards, the best of blocks of vectors, and fusion of searchers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mog_assets.index.term_counts import TermCounts
from mog_assets.papers.level_search.bm25 import Bm25Index, statistics
from mog_assets.papers.level_search.fusion import reciprocal_rank_fusion
from mog_assets.papers.level_search.searchers import Bm25Searcher, LevelMatches, keep_best


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


def test_fusion_of_nothing_is_nothing():
    nothing = np.zeros(0, np.int64)
    found = reciprocal_rank_fusion([(nothing, nothing), (nothing, nothing)])
    assert [len(column) for column in found] == [0, 0, 0]
