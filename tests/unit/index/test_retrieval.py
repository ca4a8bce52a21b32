from collections import Counter

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from shared import SAMPLES

from mog_assets.config import settings_model
from mog_assets.documents.documents import into_buckets, write_documents
from mog_assets.documents.reading import read_corpus
from mog_assets.index.bm25 import Bm25Index, joined, load_counts, save_counts, statistics
from mog_assets.index.layouts import bucket_layout, join_layouts
from mog_assets.index.tokens import assemble, count_bucket, level_counts
from mog_assets.index.vectors import bucket_texts
from mog_assets.resources.errors import ConfigError
from mog_assets.search.fusion import reciprocal_rank_fusion
from mog_assets.search.level_search import Hits, merge
from mog_assets.search.methods import RETRIEVERS, named_methods, parse
from mog_assets.search.ranked_passages import Passages, cut
from mog_assets.text.chunks import Layout, split_bucket
from mog_assets.text.terms import terms_of, tokenise

SETTINGS = settings_model().model_validate({"corpora": {"c": {"path": "x"}}})
TRAINED = settings_model().model_validate(
    {"corpora": {"c": {"path": "x"}}, "question_sets": {"q": {"path": "q.csv", "corpora": ["c"], "train": ["train"]}}}
)


# BM25


def term_counts(chunks, path):
    terms = sorted({term for chunk in chunks for term in chunk})
    number = {term: i for i, term in enumerate(terms)}
    rows = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
    columns = [number[term] for chunk in chunks for term in chunk]
    matrix = sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, columns)), (len(chunks), len(terms))).tocsc()
    matrix.sort_indices()
    save_counts(matrix, path)
    return load_counts(path, terms)


def random_chunks(n, seed, words=400):
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, words + 1)
    chances /= chances.sum()
    return [[f"w{i}" for i in rng.choice(words, rng.integers(20, 120), p=chances)] for _ in range(n)]


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (1.2, 0.0)])
def test_scores_are_those_of_bm25s(tmp_path, k1, b):
    chunks = random_chunks(200, 0)
    queries = [chunk[:8] for chunk in random_chunks(20, 1)]
    counts = term_counts(chunks, tmp_path / "counts")
    found, scores = Bm25Index(counts, statistics([counts]), k1, b).search(queries, 200)
    reference = bm25s.BM25(method="lucene", k1=k1, b=b)
    reference.index(chunks, show_progress=False)
    for query, row, values in zip(queries, found, scores, strict=True):
        expected = reference.get_scores([term for term in query if term in set(counts.terms)])
        row, values = row[row >= 0], values[row >= 0]
        assert set(row) == set(np.flatnonzero(expected > 0))
        np.testing.assert_allclose(values, expected[row], rtol=1e-4)
        assert (np.diff(values) <= 0).all()


def test_batches_and_single_questions_agree(tmp_path):
    counts = term_counts(random_chunks(500, 2), tmp_path / "counts")
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
def test_equal_scores_go_to_the_smaller_chunk(tmp_path, questions):
    counts = term_counts([["x", "y"], ["a", "b"], ["a", "c"], ["a", "d"], ["z", "z"]], tmp_path / "counts")
    found, scores = Bm25Index(counts, statistics([counts]), 1.5, 0.75).search([["a"]] * questions, 4)
    assert found.tolist() == [[1, 2, 3, -1]] * questions
    assert (scores[:, 3] == 0).all()


def test_more_chunks_than_there_are_leave_places_empty(tmp_path):
    counts = term_counts([["a"], ["a", "b"]], tmp_path / "counts")
    found, _ = Bm25Index(counts, statistics([counts]), 1.5, 0.75).search([["b"], []], 5)
    assert found.tolist() == [[1, -1, -1, -1, -1], [-1] * 5]


def test_statistics_of_several_corpora_are_those_of_their_union(tmp_path):
    left, right = random_chunks(60, 4), random_chunks(90, 5, words=300)
    parts = [term_counts(left, tmp_path / "left"), term_counts(right, tmp_path / "right")]
    together = statistics(parts)
    whole = statistics([term_counts(left + right, tmp_path / "whole")])
    assert (together.chunks, dict(together.frequencies)) == (whole.chunks, dict(whole.frequencies))
    assert together.mean_length == pytest.approx(whole.mean_length)
    expected, _ = Bm25Index(term_counts(left + right, tmp_path / "whole"), whole, 1.5, 0.75).search(
        [["w5", "w40"]], 150
    )
    found = [Bm25Index(p, together, 1.5, 0.75).search([["w5", "w40"]], 150) for p in parts]
    merged = merge([chunks for chunks, _ in found], [scores for _, scores in found], np.array([0, 60]))
    assert merged.chunk.tolist() == [c for c in expected[0] if c >= 0]


@pytest.mark.parametrize("corpora", [1, 3])
def test_a_joined_index_gives_the_scores_of_the_single_ones(tmp_path, corpora):
    # Each has terms that others lack, and one has chunks without any.
    texts = [[*random_chunks(20 + 5 * i, i, words=60 * (i + 1)), *([[]] * i)] for i in range(corpora)]
    parts = [term_counts(chunks, tmp_path / f"{i}") for i, chunks in enumerate(texts)]
    singles = [Bm25Index(part, statistics([part]), 1.5, 0.75) for part in parts]
    queries = [*(chunk[:6] for chunk in random_chunks(12, 9, words=200)), [], ["unseen"], ["w1", "w1"]]
    found, expected = (np.zeros((len(queries), sum(map(len, texts))), np.float32) for _ in range(2))
    whole = joined(singles)
    whole.add_scores(queries, found)
    first = 0
    for single, chunks in zip(singles, texts, strict=True):
        single.add_scores(queries, expected[:, first : first + len(chunks)])
        first += len(chunks)
    assert whole.chunks == first and expected.any()
    np.testing.assert_array_equal(found, expected)


# Counts of levels


def counted(tmp_path, documents, finest_chars, buckets):
    """Term counts and layout of a corpus by way of its files."""
    files, layouts = [], []
    for bucket, held in into_buckets(documents, buckets).items():
        paths = [tmp_path / f"{kind}-{bucket}.parquet" for kind in ("documents", "spans", "terms")]
        write_documents(held, paths[0])
        assert split_bucket(str(paths[0]), str(paths[1]), "sentences", finest_chars) == len(held)
        assert count_bucket(str(paths[0]), str(paths[1]), str(paths[2])) == len(held)
        files.append(paths)
        layouts.append(bucket_layout(paths[0], paths[1]))
    counts = assemble([terms for _, _, terms in files], layouts)
    return counts, layouts, [paths[0] for paths in files]


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_counts_of_a_level_are_those_of_its_texts(tmp_path, level):
    documents = read_corpus(SAMPLES / "garden.jsonl").documents
    counts, layouts, files = counted(tmp_path, documents, 300, 4)
    matrix = level_counts(counts["chunks"], counts["titles"], join_layouts("garden", layouts), level).tocsr()
    texts = [t for layout, file in zip(layouts, files, strict=True) for t in bucket_texts(file, layout, level)]
    ids, terms = tokenise(texts)
    assert matrix.shape[0] == len(texts)
    for row, tokens in enumerate(ids):
        expected = Counter(terms[i] for i in tokens)
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        held = zip(matrix.indices[entries], matrix.data[entries], strict=True)
        assert {counts["terms"][i]: n for i, n in held if n} == expected


def test_empty_titles_and_bare_punctuation_count_for_nothing(tmp_path):
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "text": "?!"}\n{"id": "b", "text": "Growing tomatoes."}')
    counts, _, _ = counted(tmp_path, read_corpus(tmp_path / "docs.jsonl").documents, 300, 1)
    assert counts["terms"] == ["grow", "tomato"]
    assert counts["titles"].nnz == 0


def test_words_that_say_nothing_leave_no_terms():
    assert terms_of(["the of and", "?!", "", "Growing tomatoes, growing"]) == [
        [],
        [],
        [],
        ["grow", "tomato", "grow"],
    ]


# Mix


@st.composite
def searches(draw):
    """A layout, what was retrieved of it by level and question, weights by question, a level by question."""
    levels, questions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    counts = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    layout = Layout("", [str(i) for i in range(len(counts))], offsets, np.zeros((offsets[-1], 2), int))
    # Eighths are exact in floating point, so that ties are ties in any order of addition.
    eighths = st.integers(1, 12).map(lambda n: n / 8)
    hits = []
    for level in range(1, levels + 1):
        rows = []
        for question in range(questions):
            chosen = draw(st.lists(st.integers(0, layout.count(level) - 1), unique=True, max_size=5))
            scores = sorted((draw(eighths) for _ in chosen), reverse=True)
            rows += [(question, chunk, score) for chunk, score in zip(chosen, scores, strict=True)]
        columns = np.array(rows, float).reshape(-1, 3).T
        hits.append(Hits(columns[0].astype(int), columns[1].astype(int), columns[2]))
    weights = np.array([[draw(st.integers(0, 8)) / 8 for _ in range(levels)] for _ in range(questions)])
    return layout, hits, weights, np.array([draw(st.integers(0, levels)) for _ in range(questions)])


def container(layout, finest, level):
    """The chunk of a level that contains a level-1 chunk, by counting."""
    document = int(np.searchsorted(layout.offsets, finest, side="right")) - 1
    before = sum(-(-int(n) // 2 ** (level - 1)) for n in np.diff(layout.offsets)[:document])
    return before + int(finest - layout.offsets[document]) // 2 ** (level - 1)


@pytest.mark.whole
@given(searches())
@settings(deadline=None)
def test_mix_equals_brute_force(search):
    from mog_assets.papers.mix_of_granularity.mixing import candidates, emit, ranked
    from mog_assets.papers.mix_of_granularity.ranker import LevelChunks

    layout, hits, weights, levels = search
    expected = []
    for question, level in enumerate(levels.tolist()):
        scored = []
        for finest in range(layout.count(1)):
            total, retrieved = 0.0, False
            for g, found in enumerate(hits, 1):
                for asked, chunk, score in zip(found.question, found.chunk, found.score, strict=True):
                    if asked == question and chunk == container(layout, finest, g):
                        total, retrieved = total + weights[question, g - 1] * score, True
            if retrieved and level:
                scored.append((-total, finest))
        emitted = {}
        for total, finest in sorted(scored):
            emitted.setdefault(container(layout, finest, level), -total)
        expected += [(question, chunk, score, level) for chunk, score in emitted.items()]
    chunks = LevelChunks(layout, len(hits), lambda level: np.zeros(1, np.int64))
    found = candidates(hits, chunks)
    mixed, level_of = emit(found, *ranked(found, weights), levels, chunks)
    columns = (mixed.question, mixed.chunk, mixed.score, level_of)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


@pytest.mark.whole
def test_emitted_level_has_the_greatest_weight_the_finer_of_equals():
    from mog_assets.papers.mix_of_granularity.mixing import emission_levels

    weights = [[0.1, 0.7, 0.2], [0.2, 0.4, 0.4], [0.2, 0.2, 0.2], [0, 0, 0]]
    assert emission_levels(np.array(weights)).tolist() == [2, 2, 1, 0]


def test_best_per_corpus_keeps_the_order():
    # Chunks below 10 are of the first corpus, the others of the second.
    question, chunk = np.array([0, 0, 0, 0, 0, 1]), np.array([15, 6, 17, 18, 9, 19])
    best = Hits(question, chunk, np.array([5.0, 4, 3, 2, 1, 1])).best_per_corpus(2, np.array([0, 10]))
    assert list(zip(best.question, best.chunk, best.score, strict=True)) == [
        (0, 15, 5),
        (0, 6, 4),
        (0, 17, 3),
        (0, 9, 1),
        (1, 19, 1),
    ]
    none = np.zeros(0, np.int64)
    assert len(Hits(none, none, np.zeros(0)).best_per_corpus(2, np.array([0, 10])).chunk) == 0


def test_runs_are_cut_where_no_measure_sees_further():
    def passages(lengths, documents):
        n = np.zeros(len(lengths), int)
        return Passages(n, np.arange(len(lengths)), np.array(documents), n, np.array(lengths), n + 1, n.astype(float))

    ten = list(range(10))
    # Eight passages fill the context, and the tenth document comes two passages later.
    assert len(cut(passages([1000] * 20, ten + [0] * 10), 2).end) == 10
    # The documents are soon seen, the context is not filled.
    assert len(cut(passages([500] * 20, ten + [0] * 10), 2).end) == 16
    assert len(cut(passages([8000] * 20, [0] * 20), 3).end) == 20
    assert len(cut(passages([8000] * 20, ten + ten), 15).end) == 15


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


# Methods


@pytest.mark.parts("paper", "bm25-mog-None-mog-None")
@pytest.mark.parametrize(
    ("name", "default", "canonical", "retriever", "kind", "level"),
    [
        ("mog-paper", "bm25", "mog-paper", "bm25", "mog-paper", None),
        ("oracle-paper", "hybrid", "oracle-paper", "hybrid", "oracle-paper", None),
        ("fixed-3", "bm25", "fixed-3", "bm25", "fixed", 3),
        ("fused-paper-2", "bm25", "fused-paper-2", "bm25", "fused-paper", 2),
        (" hybrid:mog-paper ", "bm25", "hybrid:mog-paper", "hybrid", "mog-paper", None),
        ("bm25:mog-paper", "bm25", "mog-paper", "bm25", "mog-paper", None),
        ("dense-2", "bm25", "dense-2", "dense", "fixed", 2),
        ("dense:fixed-2", "bm25", "dense-2", "dense", "fixed", 2),
        ("dense-2", "dense", "fixed-2", "dense", "fixed", 2),
        ("random", "dense", "random", None, "random", None),
        (" gold", "bm25", "gold", None, "gold", None),
        ("fused", "dense", "fused", None, "fused", None),
        ("mog ", "bm25", "mog", None, "mog", None),
        ("mix", "hybrid", "mix", None, "mix", None),
        ("auto", "bm25", "auto", None, "auto", None),
    ],
)
def test_method_by_any_of_its_names(name, default, canonical, retriever, kind, level):
    settings = SETTINGS.model_copy(update={"retriever": default})
    method = parse(name, settings)
    assert (method.name, method.retriever, method.kind, method.level) == (canonical, retriever, kind, level)
    assert parse(canonical, settings) == method


@pytest.mark.whole
@pytest.mark.parametrize(
    "name",
    ["", "moggy", "fixed", "fixed-0", "fixed-6", "mog-2", "medrag-3", "tfidf:mog-paper", "dense", "dense-9"]
    + ["bm25:random", "random+topics", "gold-1"]
    # Rankings use all retrievers and levels, and no topics; only what ranks as in the paper has levels.
    + ["oracle", "fused-1", "hybrid:mog", "mog+topics", "mix-2", "dense:fused", "auto-1", "bm25:auto", "auto+topics"]
    + ["fused-paper", "fused-paper-6", "mog-paper-1"],
)
def test_unknown_method_is_refused_with_the_known_ones(name):
    with pytest.raises(ConfigError) as caught:
        parse(name, SETTINGS)
    assert {"auto", "fused", "mix", "fixed-1..5", "fused-paper-1..5"} <= set(str(caught.value)[24:].split(", "))
    assert str(caught.value).endswith(f"got {name!r}")


@pytest.mark.whole
@pytest.mark.parametrize("default", ["bm25", "dense", "hybrid"])
def test_methods_of_groups_are_canonical_and_distinct(default):
    settings = TRAINED.model_copy(update={"retriever": default, "methods": ["default", "papers", "fused"]})
    names = [method.name for method in named_methods(settings)]
    assert names[:4] == ["fused", "tuned", "mog", "mix"]
    # Levels under three retrievers, oracle-paper, five hops, both without and with a router, and three within topics.
    assert len(set(names)) == len(names) == 4 + 12 + 2 * 11 + 5 + 2 + 3
    assert [parse(name, settings).name for name in names] == names


@pytest.mark.whole
def test_without_methods_rankings_and_levels_are_compared():
    plain = {f"{retriever}:fixed-{level}" for retriever in RETRIEVERS for level in range(1, 6)}
    plain = {parse(name, SETTINGS).name for name in plain}
    assert {method.name for method in named_methods(SETTINGS)} == {"fused", *plain}
    assert {method.name for method in named_methods(TRAINED)} == {"fused", "tuned", "mog", "mix", *plain}


@pytest.mark.whole
def test_groups_leave_out_what_cannot_be_trained_and_names_do_not():
    group = named_methods(SETTINGS.model_copy(update={"methods": ["papers"]}))
    assert group and not any(method.trained for method in group)
    with pytest.raises(ConfigError, match="methods: 'mog-paper' needs training"):
        named_methods(SETTINGS.model_copy(update={"methods": ["mog-paper"]}))
