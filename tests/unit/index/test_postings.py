"""Postings that are mapped give what an index in memory gives."""

import numpy as np
import pytest
from scipy import sparse

from mog_assets.index.bm25 import Bm25Index, joined, load_counts, mapped_counts, save_counts, statistics
from mog_assets.index.postings import Postings, Presence, Saturation
from mog_assets.index.statistics import idf
from mog_assets.index.term_tables import TermTable, write_table

TERMS = [f"term{i:02d}" for i in range(40)]
QUERIES = [["term03", "term01", "term03"], ["missing", "term39"], [], ["missing"], TERMS[::-1]]


@pytest.fixture(params=[1, 3])
def shards(request, tmp_path):
    """Counts of shards, in memory and mapped; some terms are in one shard alone, some texts have none."""
    rng, memory, mapped = np.random.default_rng(request.param), [], []
    for number in range(request.param):
        terms = sorted(rng.choice(TERMS, 30, replace=False).tolist())
        counts = rng.poisson(0.3, (50 + number, len(terms))) * rng.integers(1, 300, (50 + number, len(terms)))
        counts[7] = 0
        write_table(terms, {}, tmp_path / f"{number}.arrow")
        table, path = TermTable(tmp_path / f"{number}.arrow"), tmp_path / f"{number}.safetensors"
        matrix = sparse.csc_matrix(counts)
        matrix.sort_indices()
        save_counts(matrix, path)
        memory.append(load_counts(path, list(table)))
        mapped.append(mapped_counts(path, table))
    return memory, mapped


@pytest.fixture
def both(shards):
    memory, mapped = shards
    over = statistics(memory)
    indexes = [Bm25Index(part, over, 1.2, 0.75) for part in memory]
    return joined(indexes), Postings(mapped, over, Saturation(1.2, 0.75))


def test_scores_are_the_same_to_the_bit(both):
    index, postings = both
    expected, scores = (np.zeros((len(QUERIES), index.chunks), np.float32) for _ in range(2))
    index.add_scores(QUERIES, expected)
    postings.add_scores(QUERIES, scores)
    assert postings.chunks == index.chunks and expected.any()
    assert expected.tobytes() == scores.tobytes()


@pytest.mark.parametrize("k", [1, 7, 1000])
def test_the_best_are_the_same_of_all_and_within_groups(both, k):
    index, postings = both
    k = min(k, index.chunks)
    groups, group_of = np.array([0, 1, 2, -1, 0]), np.arange(index.chunks) % 3
    for expected, given in (
        (index.search(QUERIES, k), postings.search(QUERIES, k)),
        (index.search_within(QUERIES, k, groups, group_of), postings.search_within(QUERIES, k, groups, group_of)),
    ):
        assert [array.tolist() for array in expected] == [array.tolist() for array in given]


def test_texts_of_terms_their_counts_and_lengths(shards, both):
    memory, _ = shards
    index, postings = both
    rows = [sparse.csc_matrix((p.counts, p.indices, p.indptr), shape=(len(p.lengths), len(p.terms))) for p in memory]
    whole = np.zeros((len(TERMS), index.chunks))
    first = 0
    for part, matrix in zip(memory, rows, strict=True):
        whole[[TERMS.index(term) for term in part.terms], first : first + len(part.lengths)] = matrix.toarray().T
        first += len(part.lengths)
    for number, term in enumerate(TERMS):
        assert postings.chunks_of(term).tolist() == np.flatnonzero(whole[number]).tolist()
    some = np.array([0, 7, 8, 49, *range(50, index.chunks, 5)])[: index.chunks]
    assert (postings.counts_in([*TERMS, "missing"], some) == np.vstack([whole, np.zeros(index.chunks)])[:, some]).all()
    assert (postings.lengths_of(some) == np.concatenate([part.lengths for part in memory])[some]).all()
    assert (postings.sizes == (whole > 0).sum(axis=0)).all()
    assert postings.holds([*TERMS, "missing"]).tolist() == [*(any(t in p.terms for p in memory) for t in TERMS), False]


def test_a_term_of_titles_adds_the_same_however_often_it_is_there(shards):
    memory, mapped = shards
    over = statistics(memory)
    scores = np.zeros((1, sum(len(part.lengths) for part in memory)), np.float32)
    postings = Postings(mapped, over, Presence())
    postings.add_scores([["term05", "missing"]], scores)
    (weight,) = idf(over.chunks, over.frequencies_of(["term05"])).astype(np.float32)
    assert set(scores[0].tolist()) == {0.0, float(weight)}
    assert np.flatnonzero(scores[0]).tolist() == postings.chunks_of("term05").tolist()
