"""Postings: scores are those of bm25s, and counts those of the texts, whatever shards these are in."""

import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mog_assets.index.postings import Matches, Postings, Terms, idf, saturation
from mog_assets.index.shards import save_counts
from mog_assets.index.term_counts import mapped_counts
from mog_assets.index.term_tables import TermTable, write_table

TERMS = [f"term{i:02d}" for i in range(9)]
texts = st.lists(st.lists(st.sampled_from(TERMS), max_size=30), min_size=1, max_size=25)
questions = st.lists(st.sampled_from([*TERMS, "missing"]), max_size=6)


def postings_of(texts, cuts, folder):
    """Texts in shards, each with a vocabulary of its own, mapped from files."""
    shards = []
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(texts)], strict=True)):
        terms = sorted({term for text in texts[first:last] for term in text})
        counts = np.array([[text.count(term) for term in terms] for text in texts[first:last]], np.int32)
        matrix = sparse.csc_matrix(counts.reshape(last - first, len(terms)))
        matrix.sort_indices()
        write_table(terms, {}, folder / f"{number}.arrow")
        save_counts(matrix, folder / f"{number}.safetensors")
        shards.append(mapped_counts(folder / f"{number}.safetensors", TermTable(folder / f"{number}.arrow")))
    return Postings(shards, Terms([shard.terms for shard in shards]))


@st.composite
def divided(draw):
    """Texts, where shards of them end, and a question."""
    rows = draw(texts)
    return rows, sorted(draw(st.sets(st.integers(0, len(rows)), max_size=3))), draw(questions)


@given(divided(), st.sampled_from([(1.5, 0.75), (0.9, 0.4), (1.2, 0.0)]))
@settings(deadline=None)
def test_scores_are_those_of_bm25s(divided, options):
    rows, cuts, question = divided
    with tempfile.TemporaryDirectory() as folder:
        postings = postings_of(rows, cuts, Path(folder))
        matches = postings.matches(question)
        norms = saturation(postings.lengths, postings.lengths.mean(), *options)
        scores = matches.scores(idf(postings.count, matches.frequencies), norms)
    assert scores.dtype == np.float32 and postings.count == len(rows)
    known = {term for row in rows for term in row}
    asked = [term for term in question if term in known]
    if not asked:
        assert not scores.any()
        return
    reference = bm25s.BM25(method="lucene", k1=options[0], b=options[1])
    reference.index(rows, show_progress=False)
    np.testing.assert_allclose(scores, reference.get_scores(asked), rtol=1e-5)


@given(divided())
@settings(deadline=None)
def test_texts_of_terms_their_counts_and_frequencies_are_those_of_the_texts(divided):
    rows, cuts, question = divided
    with tempfile.TemporaryDirectory() as folder:
        postings = postings_of(rows, cuts, Path(folder))
        matches = postings.matches(question)
        assert list(matches.terms) == list(dict.fromkeys(question))
        assert [matches.terms[place] for place in matches.order] == question
        every = np.array([[row.count(term) for row in rows] for term in matches.terms]).reshape(-1, len(rows))
        assert matches.frequencies.tolist() == (every > 0).sum(axis=1).tolist()
        for place in range(len(matches.terms)):
            assert matches.texts_of(place).tolist() == np.flatnonzero(every[place]).tolist()
        every_text = np.arange(len(rows))
        for some in (every_text, every_text[::3], every_text[::-1].repeat(2), np.zeros(0, np.int64)):
            np.testing.assert_array_equal(matches.counts_in(some), every[:, some])
        assert postings.lengths.tolist() == [len(row) for row in rows]
        assert postings.sizes.tolist() == [len(Counter(row)) for row in rows]


@pytest.mark.parametrize("cuts", [[], [1, 2]])
def test_without_saturation_a_term_adds_the_same_however_often_it_is_there(tmp_path, cuts):
    matches = postings_of([["a"], ["a", "a", "b"], ["b"]], cuts, tmp_path).matches(["b", "a", "b", "missing"])
    assert matches.scores(np.array([2.0, 3.0, 5.0]), None).tolist() == [3, 5, 2]


def test_nothing_is_scored_where_there_is_nothing():
    nothing = Postings([], Terms([]))
    matches = nothing.matches(["a"])
    assert matches.scores(np.ones(1), np.zeros(0)).shape == (0,) and matches.frequencies.tolist() == [0]
    assert matches.counts_in(np.zeros(0, np.int64)).shape == (1, 0) and matches.texts_of(0).tolist() == []


def test_what_a_long_question_takes_of_memory_does_not_grow_with_terms_times_texts():
    postings = Postings([], Terms([]))
    terms, postings.count = 1000, 200_000
    place, text = np.arange(terms).repeat(5), np.tile(np.arange(5) * 9999, terms)
    count = np.ones(len(text), np.uint8)
    matches = Matches(postings, [f"term{n}" for n in range(terms)], list(range(terms)), place, text, count)
    tracemalloc.start()
    try:
        assert matches.counts_in(np.array([9999, 3, 9999])).sum(axis=0).tolist() == [terms, 0, terms]
        assert tracemalloc.get_traced_memory()[1] < 20 * postings.count
    finally:
        tracemalloc.stop()
