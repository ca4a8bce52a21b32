"""BM25 of the chunks of a level, as the papers search; and the counts of levels, from those of level 1."""

from collections import Counter

import bm25s
import numpy as np
import pytest
from scipy import sparse
from sharded import QUESTIONS, built, level_texts, opened, samples

from mog_assets.index.term_counts import TermCounts
from mog_assets.papers.level_search.bm25 import Bm25Index, statistics
from mog_assets.papers.level_search.search import bm25, counts
from mog_assets.papers.level_search.searchers import Bm25Searcher, merge
from mog_assets.papers.mix_of_granularity import labels
from mog_assets.text.terms import terms_of, tokenise


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


def test_more_chunks_than_there_are_leave_places_empty():
    counts = term_counts([["a"], ["a", "b"]])
    found, _ = Bm25Index(counts, statistics([counts]), 1.5, 0.75).search([["b"], []], 5)
    assert found.tolist() == [[1, -1, -1, -1, -1], [-1] * 5]


def test_statistics_of_several_corpora_are_those_of_their_union():
    left, right = random_chunks(60, 4), random_chunks(90, 5, words=300)
    parts = [term_counts(left), term_counts(right)]
    together = statistics(parts)
    whole = statistics([term_counts(left + right)])
    assert (together.chunks, dict(together.frequencies)) == (whole.chunks, dict(whole.frequencies))
    assert together.mean_length == pytest.approx(whole.mean_length)
    expected, _ = Bm25Index(term_counts(left + right), whole, 1.5, 0.75).search([["w5", "w40"]], 150)
    found = [Bm25Index(p, together, 1.5, 0.75).search([["w5", "w40"]], 150) for p in parts]
    merged = merge([chunks for chunks, _ in found], [scores for _, scores in found], np.array([0, 60]))
    assert merged.chunk.tolist() == [c for c in expected[0] if c >= 0]


# Counts of levels


@pytest.fixture(scope="module")
def in_shards(tmp_path_factory):
    """The sample corpora up to their BM25 counts, in many shards."""
    return opened(built(samples(), tmp_path_factory.mktemp("shards"), 8))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same, each corpus in one shard."""
    return opened(built(samples(), tmp_path_factory.mktemp("whole"), 1000))


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


def test_corpora_in_shards_are_searched_as_if_they_were_whole(whole, in_shards):
    queries = terms_of(QUESTIONS)
    for level in whole.settings.level_range:
        hits = [
            Bm25Searcher(queries, lambda level, corpora=corpora: bm25(corpora, level), corpora.starts).search(level, 5)
            for corpora in (whole, in_shards)
        ]
        assert len(hits[0].score)
        for expected, own in zip(vars(hits[0]).values(), vars(hits[1]).values(), strict=True):
            np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("measure", ["similarities_tfidf", "similarities_hitrate"])
def test_soft_labels_from_shards_are_those_from_whole_corpora(whole, in_shards, measure):
    measure = getattr(labels, measure)
    found = []
    for corpora in (whole, in_shards):
        of_level = {level: counts(corpora, level) for level in corpora.settings.level_range}
        rng = np.random.default_rng(0)
        best = np.stack([rng.integers(0, corpora.layout.count(level), len(QUESTIONS)) for level in of_level], axis=1)
        found.append(measure(terms_of(QUESTIONS), of_level, best))
    np.testing.assert_array_equal(found[1], found[0])
    assert found[0].any()
