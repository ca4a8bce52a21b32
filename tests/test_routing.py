"""Soft labels and the router."""

import math
from collections import Counter

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy import sparse

from mog_assets.config import RouterSettings
from mog_assets.corpus.chunks import Layout
from mog_assets.corpus.questions import Evidence, Question
from mog_assets.errors import MogError
from mog_assets.retrieval.bm25 import Bm25Index, TermCounts, statistics
from mog_assets.retrieval.search import Bm25Searcher
from mog_assets.retrieval.tokens import query_terms
from mog_assets.retrieval.vectors import VectorTable
from mog_assets.routing import labels as soft
from mog_assets.routing import router

# Chunks by level and corpus; a chunk of level 2 is two of level 1.
FINEST = [
    [
        "Insulin lowers blood glucose. Insulin is a hormone.",
        "The pancreas makes insulin and glucagon.",
        "Asthma narrows the airways of the lungs.",
        "Inhaled steroids calm inflamed airways.",
    ],
    ["Aspirin thins blood and relieves pain.", "Kidneys filter blood; kidneys make urine."],
]
CHUNKS = {1: FINEST, 2: [[" ".join(c[i : i + 2]) for i in range(0, len(c), 2)] for c in FINEST]}
QUESTIONS = ["What hormone lowers glucose?", "What narrows airways?", "Which organ filters blood?", "zzzz qqqq?"]
LABELS = [
    "Insulin, made by the pancreas, lowers glucose; insulin insulin!",
    "Airways that asthma narrows wheeze",
    "Kidneys filter blood",
    "the of and",
]


def counts_of(texts):
    rows = query_terms(texts)
    terms = sorted({term for row in rows for term in row})
    dense = np.array([[row.count(term) for term in terms] for row in rows], np.int32)
    matrix = sparse.csc_matrix(dense)
    return TermCounts(terms, matrix.indptr, matrix.indices, matrix.data, dense.sum(axis=1).astype(np.int64))


@pytest.fixture(scope="module")
def counts():
    return {level: [counts_of(texts) for texts in corpora] for level, corpora in CHUNKS.items()}


@pytest.fixture(scope="module")
def best(counts):
    def open_indexes(level):
        return [Bm25Index(part, statistics(counts[level]), 1.5, 0.75) for part in counts[level]]

    return soft.best_chunks(Bm25Searcher(query_terms(QUESTIONS), open_indexes), [1, 2])


def brute_force(best, similarity):
    expected = np.zeros((len(LABELS), len(best)))
    for column, (corpus, chunk) in enumerate(best):
        for row, label in enumerate(query_terms(LABELS)):
            if corpus[row] >= 0:
                expected[row, column] = similarity(label, query_terms([CHUNKS[column + 1][corpus[row]][chunk[row]]])[0])
    return expected


@pytest.mark.parametrize(
    ("similarities", "expected"),
    [
        ([0, 0.32, 0.11, 0.88, 0.45], [0, 0, 0, 0.8, 0.2]),
        ([0.95, 0.07, 0.22, 0.11, 0.19], [0.8, 0, 0.2, 0, 0]),
        ([0.1, 0.5, 0.5, 0.5, 0.2], [0, 0.8, 0.2, 0, 0]),
        ([0.9, 0.3, 0.1, 0.3, 0.3], [0.8, 0.2, 0, 0, 0]),
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
        ([-0.1, -0.2, 0, -0.3, -0.1], [0, 0, 0, 0, 0]),
    ],
)
def test_two_most_similar_levels_are_labelled_and_ties_go_to_the_finer(similarities, expected):
    result = soft.soft_labels(np.array([similarities]), (0.8, 0.2))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.array([expected], np.float32))


def test_single_level_gets_the_first_value():
    result = soft.soft_labels(np.array([[0.4], [0.0]]), (0.7, 0.3))
    np.testing.assert_array_equal(result, np.array([[0.7], [0]], np.float32))


def test_label_text_is_the_evidence_where_there_is_some():
    spans = (Evidence("a", "d1", 0, 5), Evidence("b", "d1", 6, 11))
    question = Question("q", "Why?", "open", "train", answer="x", evidence=spans)
    assert soft.label_text(question, {("a", "d1"): "first text", ("b", "d1"): "other words"}) == "first\nwords"


def test_label_text_without_evidence_spells_out_the_chosen_option():
    choice = Question("q", "Which?", "choice", "train", answer="B", options={"A": "left", "B": "right"})
    assert soft.label_text(choice, {}) == "Which? right"
    assert soft.label_text(Question("q", "Is it?", "yesno", "train", answer="yes"), {}) == "Is it? yes"
    assert soft.label_text(Question("q", "Is it?", "open", "train"), {}) == "Is it?"


def test_best_chunk_is_taken_over_all_corpora_and_missing_where_nothing_scores(best):
    (corpus, chunk), (coarse_corpus, coarse_chunk) = best
    assert corpus.tolist() == [0, 0, 1, -1]
    assert chunk.tolist() == [0, 2, 1, -1]
    assert coarse_corpus.tolist() == [0, 0, 1, -1]
    assert coarse_chunk.tolist() == [0, 1, 0, -1]


def test_hitrate_equals_brute_force(counts, best):
    result = soft.similarities_hitrate(query_terms(LABELS), counts, best)
    expected = brute_force(best, lambda label, chunk: len(set(label) & set(chunk)) / max(len(set(label)), 1))
    np.testing.assert_allclose(result, expected, atol=1e-12)
    # "wheez" is in no corpus and still counts; the last question has no chunk.
    assert result[1, 0] == 0.75
    assert not result[3].any()


def test_tfidf_equals_brute_force(counts, best):
    every = [set(row) for texts in CHUNKS[1] for row in query_terms(texts)]

    def vector(tokens):
        return {
            t: n * (math.log((1 + len(every)) / (1 + sum(t in c for c in every))) + 1)
            for t, n in Counter(tokens).items()
        }

    def cosine(label, chunk):
        one, other = vector(label), vector(chunk)
        dot = sum(w * other.get(t, 0) for t, w in one.items())
        return dot / max(math.hypot(*one.values()) * math.hypot(*other.values()), 1e-12)

    result = soft.similarities_tfidf(query_terms(LABELS), counts, best)
    np.testing.assert_allclose(result, brute_force(best, cosine), atol=1e-12)
    assert 0 < result[:3].min() < result[:3].max() < 1


def test_label_without_tokens_has_no_similarity(counts):
    found = [(np.array([0]), np.array([1]))] * 2
    for similarities in (soft.similarities_hitrate, soft.similarities_tfidf):
        np.testing.assert_array_equal(similarities([[]], counts, found), [[0, 0]])


def test_embedding_similarity_is_the_cosine_with_the_best_chunk(tmp_path, best):
    random = np.random.default_rng(0)
    tables, unit = {}, {}
    for level, corpora in CHUNKS.items():
        for number, texts in enumerate(corpora):
            vectors = random.normal(size=(len(texts), 8))
            unit[level, number] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
            path = tmp_path / f"{level}-{number}.npy"
            np.save(path, unit[level, number])
            tables.setdefault(level, []).append(VectorTable([path]))
    labels = random.normal(size=(len(LABELS), 8)).astype(np.float32)
    labels /= np.linalg.norm(labels, axis=1, keepdims=True)
    result = soft.similarities_embedding(labels, tables, best)
    for column, (corpus, chunk) in enumerate(best):
        for row in range(3):
            expected = labels[row] @ unit[column + 1, corpus[row]][chunk[row]].astype(np.float32)
            assert result[row, column] == pytest.approx(expected, abs=1e-6)
    assert not result[3].any()


def test_evidence_vector_is_the_mean_of_the_chunks_under_it_weighted_by_common_characters(tmp_path):
    layouts, tables, vectors = [], [], []
    for number, (corpus, counts) in enumerate([("a", [2, 1]), ("b", [3])]):
        spans = np.concatenate([np.arange(n)[:, None] * 10 + [0, 10] for n in counts])
        offsets = np.concatenate([[0], np.cumsum(counts)])
        layouts.append(Layout(corpus, [f"{corpus}{i}" for i in range(len(counts))], offsets, spans))
        vectors.append(np.random.default_rng(number).normal(size=(sum(counts), 4)).astype(np.float16))
        np.save(tmp_path / f"{corpus}.npy", vectors[-1])
        tables.append(VectorTable([tmp_path / f"{corpus}.npy"]))
    evidence = (Evidence("a", "a0", 7, 12), Evidence("b", "b0", 20, 30), Evidence("a", "a1", 0, 1))
    questions = [Question("1", "?", "open", "train", evidence=evidence), Question("2", "?", "open", "train")]
    result = soft.evidence_vectors(questions, layouts, tables)
    a, b = (v.astype(np.float32) for v in vectors)
    expected = 3 * a[0] + 2 * a[1] + 10 * b[2] + 1 * a[2]
    np.testing.assert_allclose(result[0], expected / np.linalg.norm(expected), rtol=1e-5)
    assert not result[1].any()


def toy(n=300):
    vectors = np.random.default_rng(1).normal(size=(n, 6)).astype(np.float32)
    labels = np.where(vectors[:, :1] > 0, [[0.8, 0.2, 0]], [[0, 0.2, 0.8]]).astype(np.float32)
    return vectors, labels, [f"document {i // 3}" for i in range(n)]


SETTINGS = RouterSettings(hidden=[16], learning_rate=1e-2, epochs=60, patience=10, batch_size=32)


@pytest.fixture(scope="module")
def trained():
    return router.train(*toy(), SETTINGS, 0)


def test_router_learns_which_level_a_separable_question_needs(trained):
    vectors, labels, _ = toy()
    weights = router.predict(trained.weights, vectors)
    assert weights.shape == labels.shape and weights.dtype == np.float32
    assert (weights.argmax(1) == labels.argmax(1)).mean() > 0.95
    assert router.weights_fault(weights) is None


def test_weights_are_those_of_the_least_validation_loss(trained):
    losses = [row["validation_loss"] for row in trained.curve]
    assert trained.best_epoch == int(np.argmin(losses)) + 1
    assert [row["epoch"] for row in trained.curve] == list(range(1, len(losses) + 1))
    vectors, labels, groups = toy()
    rows = router._validation_rows(groups, SETTINGS.validation)
    p = router.predict(trained.weights, vectors[rows]).astype(np.float64)
    loss = -(labels[rows] * np.log(p) + (1 - labels[rows]) * np.log(1 - p)).sum(axis=1).mean()
    assert loss == pytest.approx(min(losses), abs=1e-5)


def test_training_stops_when_validation_no_longer_improves():
    vectors, _, groups = toy()
    noise = np.random.default_rng(2).random((len(vectors), 3))
    epochs = []
    result = router.train(vectors, noise, groups, SETTINGS.model_copy(update={"patience": 3}), 0, epochs.append)
    assert result.best_epoch + 3 == len(result.curve) < SETTINGS.epochs
    assert epochs == [1] * len(result.curve)


def test_training_is_deterministic_and_leaves_the_global_random_state(trained):
    import torch

    before = torch.random.get_rng_state()
    again = router.train(*toy(), SETTINGS, 0)
    other = router.train(*toy(), SETTINGS, 1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert again.curve == trained.curve
    for name, array in trained.weights.items():
        np.testing.assert_array_equal(array, again.weights[name])
    assert not np.array_equal(other.weights["layer0.weight"], trained.weights["layer0.weight"])


def test_validation_keeps_groups_together_and_holds_some_out(trained):
    groups = toy()[2]
    rows = router._validation_rows(groups, 0.1)
    assert not {g for g, r in zip(groups, rows, strict=True) if r} & {
        g for g, r in zip(groups, rows, strict=True) if not r
    }
    assert (trained.n_train, trained.n_validation) == (int((~rows).sum()), int(rows.sum()))


@pytest.mark.parametrize("share", [1e-12, 1 - 1e-12])
def test_a_tenth_of_the_groups_is_held_out_where_hashes_leave_a_part_empty(share):
    rows = router._validation_rows([f"document {i}" for i in range(40)], share)
    assert rows.sum() == 4


def test_prediction_equals_torch():
    import torch

    generator = torch.Generator().manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4)
    )
    weights = {}
    for number, layer in enumerate(model[::2]):
        for name, tensor in layer.named_parameters():
            torch.nn.init.normal_(tensor, generator=generator)
            weights[f"layer{number}.{name}"] = tensor.detach().numpy()
    vectors = np.random.default_rng(4).normal(size=(9, 6)).astype(np.float32)
    expected = torch.sigmoid(model(torch.from_numpy(vectors))).detach().numpy()
    np.testing.assert_allclose(router.predict(weights, vectors), expected, atol=1e-5)


def test_saved_router_is_read_back(tmp_path, trained):
    router.save(trained.weights, tmp_path / "router.safetensors")
    again = router.load(tmp_path / "router.safetensors")
    assert again.keys() == trained.weights.keys()
    for name, array in again.items():
        np.testing.assert_array_equal(array, trained.weights[name])


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"counts": np.ones(3, np.float32)},
        {"layer0.weight": np.ones((3, 2), np.float32), "layer0.bias": np.ones(2, np.float32)},
        {"layer0.weight": np.ones((3, 2)), "layer0.bias": np.ones(3)},
        {
            "layer0.weight": np.ones((3, 2), np.float32),
            "layer0.bias": np.ones(3, np.float32),
            "layer1.weight": np.ones((3, 4), np.float32),
            "layer1.bias": np.ones(3, np.float32),
        },
    ],
)
def test_safetensors_of_something_else_is_no_router(tmp_path, arrays):
    save_file(arrays, tmp_path / "router.safetensors")
    with pytest.raises(MogError, match="expected the layers of a router"):
        router.load(tmp_path / "router.safetensors")


def test_file_that_is_missing_or_not_safetensors_is_no_router(tmp_path):
    (tmp_path / "router.safetensors").write_text("not a router")
    for name in ("router.safetensors", "absent.safetensors"):
        with pytest.raises(MogError, match="rematerialize the router"):
            router.load(tmp_path / name)


def test_training_on_too_little_is_an_error():
    vectors, labels, groups = toy()
    with pytest.raises(MogError, match="at least 10 training questions.*got 9"):
        router.train(vectors[:9], labels[:9], groups[:9], SETTINGS, 0)
    with pytest.raises(MogError, match="at least 2 documents"):
        router.train(vectors, labels, ["same"] * len(vectors), SETTINGS, 0)


def test_training_that_diverges_is_an_error_with_a_remedy():
    vectors, labels, groups = toy()
    with pytest.raises(MogError, match="loss must be finite.*lower router.learning_rate"):
        router.train(vectors, labels, groups, SETTINGS.model_copy(update={"learning_rate": 1e30}), 0)
    vectors[3, 2] = np.nan
    with pytest.raises(MogError, match="query vectors hold values that are not finite"):
        router.train(vectors, labels, groups, SETTINGS, 0)


def test_outputs_that_do_not_depend_on_the_question_are_a_fault():
    outputs = np.tile(np.array([[0.3, 0.6]], np.float32), (20, 1))
    assert "same for all 20" in router.weights_fault(outputs)
    outputs[4, 1] = np.nan
    assert "not finite for 1 of 20" in router.weights_fault(outputs)
    assert router.weights_fault(np.random.default_rng(0).random((20, 2))) is None
