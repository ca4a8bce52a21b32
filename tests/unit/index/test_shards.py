"""Shards: BM25 counts by groups of buckets give what those of a whole corpus give, within bounds."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sharded import QUESTIONS, built, level_texts, opened, samples

from mog_assets.config import settings_model
from mog_assets.index.postings import idf, saturation
from mog_assets.index.shards import frequencies_and_totals, save_counts, shards
from mog_assets.index.term_counts import mapped_counts
from mog_assets.text.terms import terms_of

# The division of a corpus


@given(
    st.dictionaries(st.integers(0, 4095), st.integers(0, 40), min_size=1, max_size=24),
    st.integers(1, 200),
)
def test_shards_are_consecutive_buckets_within_the_bound(sizes, most):
    chunks = {f"bucket_{number:04d}.parquet": size for number, size in sizes.items()}
    found = shards(chunks, most)
    assert [name for group in found.values() for name in group] == sorted(chunks)
    assert list(found) == sorted(found)
    for group in found.values():
        assert len(group) == 1 or sum(chunks[name] for name in group) <= most
    if sum(sizes.values()) <= most:
        assert list(found) == ["0000"]


@given(st.lists(st.integers(1, 9), min_size=32, max_size=32), st.integers(0, 31), st.integers(10, 60))
def test_a_corpus_that_grows_keeps_its_shards_or_halves_them(sizes, where, most):
    def divided(sizes):
        return list(shards({f"bucket_{n:04d}.parquet": size for n, size in enumerate(sizes)}, most).values())

    before = divided(sizes)
    sizes[where] += 5
    for group in divided(sizes):
        assert any(set(group) <= set(old) for old in before)


# The files


@pytest.mark.parametrize(("rows", "most"), [(3, 2), (300, 300), (70_000, 70_000)])
def test_counts_are_read_as_they_were_written_however_narrow_they_are_kept(tmp_path, rows, most):
    rng = np.random.default_rng(rows)
    dense = rng.integers(1, most + 1, (rows, 7)) * (rng.random((rows, 7)) < 0.3)
    dense[rows - 1, 6] = most
    matrix = sparse.csc_matrix(dense)
    save_counts(matrix, tmp_path / "counts")
    stored = mapped_counts(tmp_path / "counts", list("abcdefg"))
    for own, expected in (
        (stored.indptr, matrix.indptr),
        (stored.indices, matrix.indices),
        (stored.counts, matrix.data),
        (stored.lengths, np.asarray(matrix.sum(axis=1)).ravel()),
    ):
        np.testing.assert_array_equal(own, expected)
    assert stored.counts.itemsize == np.min_scalar_type(most).itemsize


def test_counts_of_nothing_are_read_as_nothing(tmp_path):
    save_counts(sparse.csc_matrix((2, 0), dtype=np.int32), tmp_path / "counts")
    stored = mapped_counts(tmp_path / "counts", [])
    assert len(stored.counts) == 0 and stored.lengths.tolist() == [0, 0] and stored.indptr.tolist() == [0]
    assert frequencies_and_totals(tmp_path / "counts", 1)[1:] == (2, 0)


# Corpora


@pytest.fixture(scope="module")
def in_shards(tmp_path_factory):
    """The sample corpora up to their BM25 counts, in many shards."""
    return built(samples(), tmp_path_factory.mktemp("shards"), 8)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same, each corpus in one shard."""
    return built(samples(), tmp_path_factory.mktemp("whole"), 1000)


def test_corpora_in_shards_are_scored_as_if_they_were_whole(whole, in_shards):
    one, many = opened(whole), opened(in_shards)
    assert len(many.words.shards) > len(many.names) == len(one.words.shards)
    for kind in ("words", "titles"):
        postings = [getattr(corpora, kind) for corpora in (one, many)]
        np.testing.assert_array_equal(postings[0].lengths, postings[1].lengths)
        np.testing.assert_array_equal(postings[0].sizes, postings[1].sizes)
        for terms in terms_of(QUESTIONS):
            matches = [part.matches(terms) for part in postings]
            weights = idf(postings[0].count, matches[0].frequencies)
            norms = saturation(postings[0].lengths, 9.5, 1.5, 0.75)
            scores = [found.scores(weights, norms) for found in matches]
            np.testing.assert_array_equal(scores[1], scores[0])
            assert scores[0].any() or not matches[0].frequencies.any()


def test_what_weighs_terms_is_counted_in_the_texts_of_each_level(whole, in_shards):
    for tools in (whole, in_shards):
        corpora = opened(tools)
        for level in corpora.settings.level_range:
            texts = level_texts(corpora, level)
            rows = terms_of(texts)
            frequencies = Counter(term for row in rows for term in set(row))
            terms, kind = [*frequencies, "unheardof"], f"level_{level}"
            stored = corpora.statistics
            assert stored.texts[kind] == len(texts)
            assert stored.mean_lengths[kind] == pytest.approx(sum(map(len, rows)) / len(rows))
            assert stored.frequencies(kind).values_of(terms).tolist() == [*frequencies.values(), 0]
            # At least one, as somebody asks.
            times = np.array([*frequencies.values(), 1])
            np.testing.assert_allclose(stored.weights.of(terms)[kind], idf(len(texts), times))


def test_figures_of_artefacts_do_not_depend_on_the_division(whole, in_shards):
    for name in whole.settings.corpora:
        for key in ("tokens", "bm25/level_1"):
            one, many = (store.read(key, name).manifest for store in (whole.store, in_shards.store))
            assert {**one.counts, "shards": 0} == {**many.counts, "shards": 0}


def test_an_edit_writes_one_shard_again(tmp_path):
    documents = [{"id": f"d{i}", "title": f"T{i}", "text": f"Otter {i} swims. It eats fish."} for i in range(24)]
    path = tmp_path / "pond.jsonl"

    def stored():
        path.write_text("".join(json.dumps(document) + "\n" for document in documents))
        made = settings_model().model_validate({"corpora": {"pond": {"path": path}}, "levels": 2, "buckets": 8})
        return built(made, tmp_path, 6).store

    def files(store, key):
        return {name: entry["sha256"] for name, entry in store.read(key, "pond").manifest.files.items()}

    store, keys = stored(), ("tokens", "bm25/level_1")
    before = {key: files(store, key) for key in keys}
    documents[3]["text"] += " A heron waits."
    store = stored()
    after = files(store, "bm25/level_1")
    changed = [name for name in after if after[name] != before["bm25/level_1"][name]]
    assert len(after) > 2 and len(changed) == 1
    counts = mapped_counts(store.read("bm25/level_1", "pond").path(changed[0]), [])
    assert store.read("bm25/level_1", "pond").manifest.info["recomputed"]["chunks counted"] == len(counts.lengths)
    changed = [name for name, sha256 in files(store, "tokens").items() if sha256 != before["tokens"][name]]
    assert sorted(name.partition("_")[0] for name in changed) == ["bucket", "terms", "titles", "words"]
