"""Shards: BM25 counts by groups of buckets give what those of a whole corpus give, within bounds."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from shared import SAMPLES

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.config import settings_model
from mog_assets.index import vectors
from mog_assets.index.bm25 import Bm25Index, TermCounts, load_counts, save_counts, statistics
from mog_assets.index.corpora import Corpora
from mog_assets.index.shards import shards
from mog_assets.index.vectors import VectorTable
from mog_assets.resources.arrays import save_array
from mog_assets.search.level_search import Bm25Searcher, keep_best
from mog_assets.text.terms import terms_of

QUESTIONS = [
    "How deep should garlic cloves be planted?",
    "Which plant needs support and water in summer?",
    "What did the telescope see of the moon and the planets?",
    "What is a plane used for?",
    "unheardof",
    "the of and",
]


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
    found = load_counts(tmp_path / "counts", list("abcdefg"))
    for own, expected in (
        (found.indptr, matrix.indptr),
        (found.indices, matrix.indices),
        (found.counts, matrix.data),
        (found.lengths, np.asarray(matrix.sum(axis=1)).ravel()),
    ):
        np.testing.assert_array_equal(own, expected)
    kinds = (found.indptr, found.indices, found.counts, found.lengths)
    assert [str(array.dtype) for array in kinds] == ["int64", "int32", "int32", "int64"]


def test_counts_of_nothing_are_read_as_nothing(tmp_path):
    save_counts(sparse.csc_matrix((2, 0), dtype=np.int32), tmp_path / "counts")
    found = load_counts(tmp_path / "counts", [])
    assert len(found.counts) == 0 and found.lengths.tolist() == [0, 0] and found.indptr.tolist() == [0]


# Searches


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


@pytest.fixture(scope="module")
def in_shards(tmp_path_factory):
    """The sample corpora up to their BM25 counts, in many shards."""
    return built(samples(), tmp_path_factory.mktemp("shards"), 8)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same, each corpus in one shard."""
    return built(samples(), tmp_path_factory.mktemp("whole"), 1000)


def samples():
    paths = [SAMPLES / name for name in ("garden.jsonl", "sky", "workshop")]
    return settings_model().model_validate({"corpora": {path.stem: {"path": path} for path in paths}})


def built(made, folder, most):
    """Corpora up to their BM25 counts."""
    own = made.model_copy(update={"home": folder / "home", "shard_chunks": most})
    tools, recipes = Tools(own), plan.graph(own)
    for key, recipe in recipes.items():
        if key.partition("/")[0] in ("documents", "chunks", "tokens", "bm25"):
            for name in own.corpora:
                assert materialise(recipe, name, tools, recipes).faults == {}
    assert materialise(recipes["statistics"], None, tools, recipes).faults == {}
    return tools


def opened(tools, **bm25):
    own = tools.settings.model_copy(update={"bm25": tools.settings.bm25.model_copy(update=bm25)})
    return Corpora.open(tools.store.read, own, list(own.corpora))


@pytest.mark.parametrize("over", ["question_set", "corpus"])
def test_corpora_in_shards_are_searched_as_if_they_were_whole(whole, in_shards, over):
    one, many = opened(whole, statistics=over), opened(in_shards, statistics=over)
    queries = terms_of(QUESTIONS)
    assert len(many.shard_owners) > len(many.names) == len(one.shard_owners)
    for level in one.settings.level_range:
        hits = [Bm25Searcher(queries, corpora.bm25, corpora.starts).search(level, 5) for corpora in (one, many)]
        for expected, own in zip(vars(hits[0]).values(), vars(hits[1]).values(), strict=True):
            np.testing.assert_array_equal(own, expected)
        np.testing.assert_array_equal(scores(many.joined_bm25(level), queries), scores(one.joined_bm25(level), queries))
    expected = scores(one.titles, queries)
    np.testing.assert_array_equal(scores(many.titles, queries), expected)
    assert expected.any() and len(hits[0].score)


def scores(index, queries):
    found = np.zeros((len(queries), index.chunks), np.float32)
    index.add_scores(queries, found)
    return found


@pytest.mark.whole
@pytest.mark.parametrize("measure", ["similarities_tfidf", "similarities_hitrate"])
def test_soft_labels_from_shards_are_those_from_whole_corpora(whole, in_shards, measure):
    from mog_assets.papers.mix_of_granularity import labels

    measure = getattr(labels, measure)
    found = []
    for corpora in (opened(whole), opened(in_shards)):
        counts = {level: corpora.counts(level) for level in corpora.settings.level_range}
        rng = np.random.default_rng(0)
        best = np.stack([rng.integers(0, corpora.layout.count(level), len(QUESTIONS)) for level in counts], axis=1)
        found.append(measure(terms_of(QUESTIONS), counts, best))
    np.testing.assert_array_equal(found[1], found[0])
    assert found[0].any()


def test_figures_of_artefacts_do_not_depend_on_the_division(whole, in_shards):
    for name in whole.settings.corpora:
        for key in ("tokens", "bm25/level_1", "bm25/level_3"):
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

    store, keys = stored(), ("tokens", "bm25/level_1", "bm25/level_2")
    before = {key: files(store, key) for key in keys}
    documents[3]["text"] += " A heron waits."
    store = stored()
    for key in keys[1:]:
        after = files(store, key)
        changed = [name for name in after if after[name] != before[key][name]]
        assert len(after) > 2 and len(changed) == 1
        counts = load_counts(store.read(key, "pond").path(changed[0]), [])
        assert store.read(key, "pond").manifest.info["recomputed"]["chunks counted"] == len(counts.lengths)
    changed = [name for name, sha256 in files(store, "tokens").items() if sha256 != before["tokens"][name]]
    assert sorted(name.partition("_")[0] for name in changed) == ["bucket", "terms", "titles", "words"]


# Vectors


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


@pytest.mark.parametrize("asked", [1, 12])
def test_large_tables_stay_on_disk_and_give_the_same_products(tmp_path, monkeypatch, asked):
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{i}.npy" for i in range(3)]
    for path, rows in zip(paths, (5, 0, 9), strict=True):
        save_array(path, rng.normal(size=(rows, 16)).astype(np.float16))
    given = rng.normal(size=(asked, 16)).astype(np.float32)
    expected = VectorTable(paths).products(given)
    assert VectorTable(paths, unpacked=True).unpacked
    monkeypatch.setattr(vectors, "_KEPT_BYTES", 100)
    monkeypatch.setattr(vectors, "_BLOCK_BYTES", 0)
    table = VectorTable(paths, unpacked=True)
    assert not table.unpacked and table.widest == 9
    filled = [block for block in table.blocks if len(block)]
    assert all(np.shares_memory(block, table.parts[i]) for i, block in zip((0, 2), filled, strict=True))
    np.testing.assert_allclose(table.products(given), expected, atol=2e-2)
    monkeypatch.setattr(vectors, "_UNPACKED_AT_ONCE", 4)
    np.testing.assert_allclose(table.products(given), expected, atol=1e-5)
    assert [first for first, _ in table.product_blocks(given)] == [0, 5]
