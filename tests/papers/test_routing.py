"""Soft labels and the router."""

import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save
from scipy import sparse
from shared import copy_folder

from mog_assets.build.materialising import is_fresh, materialise
from mog_assets.build.recipe import Recipe
from mog_assets.build.tools import Tools
from mog_assets.index.layouts import join_layouts
from mog_assets.index.term_counts import TermCounts
from mog_assets.index.vectors import VectorTable
from mog_assets.papers.level_search.bm25 import Bm25Index, statistics
from mog_assets.papers.level_search.searchers import Bm25Searcher
from mog_assets.papers.mix_of_granularity import assets as routing_assets
from mog_assets.papers.mix_of_granularity import checks, router
from mog_assets.papers.mix_of_granularity import labels as soft
from mog_assets.papers.mix_of_granularity.settings import RouterSettings
from mog_assets.papers.mix_of_granularity.validation import validation_rows
from mog_assets.questions.sets import Evidence, Question
from mog_assets.resources.errors import MogError
from mog_assets.resources.publishing import remove
from mog_assets.text.chunks import Layout
from mog_assets.text.terms import terms_of

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
    rows = terms_of(texts)
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

    searcher = Bm25Searcher(terms_of(QUESTIONS), open_indexes, lambda level: np.array([0, len(CHUNKS[level][0])]))
    return soft.best_chunks(searcher, [1, 2], len(QUESTIONS))[0]


def brute_force(best, similarity):
    expected = np.zeros(best.shape)
    for row, label in enumerate(terms_of(LABELS)):
        for column, chunk in enumerate(best[row]):
            if chunk >= 0:
                text = sum(CHUNKS[column + 1], [])[chunk]
                expected[row, column] = similarity(label, terms_of([text])[0])
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
    first, second = len(CHUNKS[1][0]), len(CHUNKS[2][0])
    assert best.tolist() == [[0, 0], [2, 1], [first + 1, second], [-1, -1]]


def test_hitrate_equals_brute_force(counts, best):
    result = soft.similarities_hitrate(terms_of(LABELS), counts, best)
    expected = brute_force(best, lambda label, chunk: len(set(label) & set(chunk)) / max(len(set(label)), 1))
    np.testing.assert_allclose(result, expected, atol=1e-12)
    # "wheez" is in no corpus and still counts; the last question has no chunk.
    assert result[1, 0] == 0.75
    assert not result[3].any()


def test_tfidf_equals_brute_force(counts, best):
    every = [set(row) for texts in CHUNKS[1] for row in terms_of(texts)]

    def vector(tokens):
        return {
            t: n * (math.log((1 + len(every)) / (1 + sum(t in c for c in every))) + 1)
            for t, n in Counter(tokens).items()
        }

    def cosine(label, chunk):
        one, other = vector(label), vector(chunk)
        dot = sum(w * other.get(t, 0) for t, w in one.items())
        return dot / max(math.hypot(*one.values()) * math.hypot(*other.values()), 1e-12)

    result = soft.similarities_tfidf(terms_of(LABELS), counts, best)
    np.testing.assert_allclose(result, brute_force(best, cosine), atol=1e-12)
    assert 0 < result[:3].min() < result[:3].max() < 1


def test_label_without_tokens_has_no_similarity(counts):
    found = np.array([[1, 1]])
    for similarities in (soft.similarities_hitrate, soft.similarities_tfidf):
        np.testing.assert_array_equal(similarities([[]], counts, found), [[0, 0]])


def test_embedding_similarity_is_the_cosine_with_the_best_chunk(tmp_path, best):
    random = np.random.default_rng(0)
    tables, unit = {}, {}
    for level, corpora in CHUNKS.items():
        vectors = random.normal(size=(sum(len(texts) for texts in corpora), 8))
        unit[level] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
        paths = [tmp_path / f"{level}-{number}.npy" for number in range(len(corpora))]
        for path, part in zip(paths, np.split(unit[level], [len(corpora[0])]), strict=True):
            np.save(path, part)
        tables[level] = VectorTable(paths)
    labels = random.normal(size=(len(LABELS), 8)).astype(np.float32)
    labels /= np.linalg.norm(labels, axis=1, keepdims=True)
    result = soft.similarities_embedding(labels, tables, best)
    for row in range(3):
        for column, chunk in enumerate(best[row]):
            expected = labels[row] @ unit[column + 1][chunk].astype(np.float32)
            assert result[row, column] == pytest.approx(expected, abs=1e-6)
    assert not result[3].any()


def test_evidence_vector_is_the_mean_of_the_chunks_under_it_weighted_by_common_characters(tmp_path):
    layouts, vectors = [], []
    for number, (corpus, counts) in enumerate([("a", [2, 1]), ("b", [3])]):
        spans = np.concatenate([np.arange(n)[:, None] * 10 + [0, 10] for n in counts])
        offsets = np.concatenate([[0], np.cumsum(counts)])
        layouts.append(Layout(corpus, [f"{corpus}{i}" for i in range(len(counts))], offsets, spans))
        vectors.append(np.random.default_rng(number).normal(size=(sum(counts), 4)).astype(np.float16))
        np.save(tmp_path / f"{corpus}.npy", vectors[-1])
    evidence = (Evidence("a", "a0", 7, 12), Evidence("b", "b0", 20, 30), Evidence("a", "a1", 0, 1))
    questions = [Question("1", "?", "open", "train", evidence=evidence), Question("2", "?", "open", "train")]
    position = {("a", "a0"): 0, ("a", "a1"): 1, ("b", "b0"): 2}
    table = VectorTable([tmp_path / "a.npy", tmp_path / "b.npy"])
    result = soft.evidence_vectors(questions, position, join_layouts("", layouts), table)
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
    rows = validation_rows(groups, SETTINGS.validation, "router")
    p = router.predict(trained.weights, vectors[rows]).astype(np.float64)
    loss = -(labels[rows] * np.log(p) + (1 - labels[rows]) * np.log(1 - p)).sum(axis=1)
    assert loss.mean() == pytest.approx(min(losses), abs=1e-5)
    np.testing.assert_allclose(router.losses(trained.weights, vectors[rows], labels[rows]), loss, rtol=1e-4)


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
    rows = validation_rows(groups, 0.1, "router")
    assert not {g for g, r in zip(groups, rows, strict=True) if r} & {
        g for g, r in zip(groups, rows, strict=True) if not r
    }
    np.testing.assert_array_equal(trained.held_out, rows)


@pytest.mark.parametrize("share", [1e-12, 1 - 1e-12])
def test_a_tenth_of_the_groups_is_held_out_where_hashes_leave_a_part_empty(share):
    rows = validation_rows([f"document {i}" for i in range(40)], share, "router")
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


def test_every_question_counts_for_the_level_with_the_greatest_weight():
    outputs = np.array([[0.1, 0.9, 0.2], [0.5, 0.5, 0.1], [0.2, 0.3, 0.1]], np.float32)
    assert router.chosen_levels(outputs) == [1, 2, 0]
    assert router.chosen_levels(np.zeros((0, 4), np.float32)) == [0, 0, 0, 0]


# Opening a router

FACTS = {"encoder": "e1", "levels": 3}


def put(path, data):
    """A stored router with these bytes and a manifest that names them."""
    path.write_bytes(data)
    files = {router.WEIGHTS: {"sha256": hashlib.sha256(data).hexdigest()}}
    return SimpleNamespace(manifest=SimpleNamespace(files=files), path=lambda name: path)


def test_stored_router_is_read_back_with_its_facts_and_equal_bytes(tmp_path, trained):
    sealed = router.sealed(trained.weights, FACTS)
    assert router.encoded(sealed) == router.encoded(router.sealed(trained.weights, FACTS))
    again = router.open_router(put(tmp_path / "r", router.encoded(sealed)), "e1", 3)
    assert again.facts == {**FACTS, "sha256": sealed.facts["sha256"]}
    assert again.weights.keys() == trained.weights.keys()
    for name, array in again.weights.items():
        np.testing.assert_array_equal(array, trained.weights[name])


def test_any_changed_byte_is_an_error_that_names_both_checksums(tmp_path, trained):
    data = router.encoded(router.sealed(trained.weights, FACTS))
    stored = put(tmp_path / "r", data)
    for at in np.linspace(0, len(data) - 1, 40).astype(int):
        changed = bytearray(data)
        changed[at] ^= 1
        (tmp_path / "r").write_bytes(changed)
        assert not router.is_intact(stored)
        with pytest.raises(MogError) as caught:
            router.open_router(stored, "e1", 3)
        for content in (data, changed):
            assert hashlib.sha256(content).hexdigest() in str(caught.value)
        assert str(caught.value).endswith("run `mog run`")
    (tmp_path / "r").write_bytes(data)
    assert router.is_intact(stored)


def unchanged(weights):
    return weights


def without_a_number(weights):
    return {**weights, "layer1.bias": weights["layer1.bias"] * np.nan}


def constant(weights):
    return {name: np.zeros_like(array) for name, array in weights.items()}


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (unchanged, None),
        (without_a_number, "layer1.bias: not all weights are finite"),
        (constant, r"the same for all \d+ directions"),
    ],
)
def test_no_router_replaces_another_before_its_weights_are_found_alive(tmp_path, trained, damage, fault):
    stored = put(tmp_path / "r", save({name: np.asarray(a) for name, a in damage(trained.weights).items()}))
    found = checks.WEIGHTS_ALIVE.run(SimpleNamespace(draft=stored, info={}))
    assert found is None if fault is None else re.search(fault, found)
    assert checks.WEIGHTS_ALIVE.blocking


@pytest.mark.parametrize(
    ("encoder", "levels", "message"),
    [("e2", 3, "vectors of encoder e1, .* has e2: run"), ("e1", 5, "number of levels 3, .* has 5: run")],
)
def test_router_of_another_encoder_or_other_levels_names_both_sides(tmp_path, trained, encoder, levels, message):
    stored = put(tmp_path / "r", router.encoded(router.sealed(trained.weights, FACTS)))
    assert router.is_intact(stored)
    with pytest.raises(MogError, match=message):
        router.open_router(stored, encoder, levels)


def layers(*shapes, dtype=np.float32):
    arrays = {}
    for number, (out, into) in enumerate(shapes):
        arrays |= {f"layer{number}.weight": np.ones((out, into), dtype), f"layer{number}.bias": np.ones(out, dtype)}
    return arrays


def header(facts):
    return {"mog": json.dumps(facts)}


NOT_FINITE = {**layers((3, 2)), "layer0.bias": np.array([1, np.nan, 1], np.float32)}
BFLOAT16 = json.dumps({"layer0.weight": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a safetensors file"),
        (b"not a router", "expected a safetensors file"),
        ((1 << 62).to_bytes(8, "little") + b"{}", "expected a safetensors file"),
        (save(layers((3, 2)))[:-4], "expected a safetensors file"),
        (len(BFLOAT16).to_bytes(8, "little") + BFLOAT16 + b"00", "expected"),
        (save({}), "the layers of a router, got arrays named nothing"),
        (save({"counts": np.ones(3, np.float32)}), "the layers of a router, got arrays named counts"),
        (save({**layers((3, 2)), "layer0.bias": np.ones(2, np.float32)}), "layers of a router, got layer0 of shapes"),
        (save(layers((3, 2), dtype=np.float64)), "the layers of a router, got layer0 .* float64"),
        (save(layers((3, 2), (3, 4))), "the layers of a router, got layer1 of shapes"),
        (save(NOT_FINITE, header(FACTS)), "the layers of a router, got values in layer0 that are not finite"),
        (save(layers((3, 2))), "its encoder, levels and checksum in its header, got none"),
        (save(layers((3, 2)), header([1])), "its encoder, levels and checksum in its header, got none"),
        (save(layers((3, 2)), {"mog": "{"}), "expected a safetensors file"),
        (save(layers((4, 2)), header({**FACTS, "sha256": "x"})), "outputs for 3 levels, got 4"),
        (save(layers((3, 2)), header({**FACTS, "sha256": "x"})), "weights of SHA-256 x, got [0-9a-f]{64}"),
    ],
)
def test_stored_bytes_that_are_no_router_are_an_error(tmp_path, data, message):
    with pytest.raises(MogError, match=message):
        router.open_router(put(tmp_path / "r", data), "e1", 3)


def test_router_file_that_vanished_is_an_error(tmp_path, trained):
    stored = put(tmp_path / "r", router.encoded(router.sealed(trained.weights, FACTS)))
    (tmp_path / "r").unlink()
    with pytest.raises(MogError, match="expected a readable file"):
        router.open_router(stored, "e1", 3)


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
    with pytest.raises(MogError, match="query vectors have values that are not finite"):
        router.train(vectors, labels, groups, SETTINGS, 0)


def test_outputs_that_do_not_depend_on_the_question_are_a_fault():
    outputs = np.tile(np.array([[0.3, 0.6]], np.float32), (20, 1))
    assert "same for all 20" in router.weights_fault(outputs)
    outputs[4, 1] = np.nan
    assert "not finite for 1 of 20" in router.weights_fault(outputs)
    assert router.weights_fault(np.random.default_rng(0).random((20, 2))) is None


# Which router is used


def test_routers_are_compared_only_on_what_neither_was_trained_on():
    now = pd.DataFrame({"group": list("aabbccdd"), "text": [f"question {i}" for i in range(8)]})
    held_out = np.array([1, 1, 1, 1, 1, 1, 0, 0], bool)
    earlier = pd.DataFrame(
        {
            # Of b one was trained on; document x was renamed c, and its first question was trained on.
            "group": ["a", "b", "b", "x", "x", "d"],
            "text": ["question 0", "question 2", "old", "question 4", "old too", "question 6"],
            "held_out": [True, False, True, False, True, False],
        }
    )
    assert router.unseen(now, held_out, earlier).tolist() == [True, True, False, False, False, True, False, False]
    repeated = now.assign(text=["question 7", *now["text"][1:]])
    assert router.unseen(repeated, held_out, earlier).tolist() == [False, True, False, False, False, True, False, False]


def test_comparison_permutes_whole_documents():
    vectors, labels, _ = toy(60)
    good = {"layer0.weight": np.zeros((3, 6), np.float32), "layer0.bias": np.zeros(3, np.float32)}
    good["layer0.weight"][:, 0] = [2, 0, -2]
    bad = {**good, "layer0.weight": -good["layer0.weight"]}
    found = router.compare(good, bad, vectors, labels, [f"d{i}" for i in range(60)], 0)
    assert found["questions"] == found["groups"] == 60
    assert found["new"] > found["previous"] and found["p"] < 0.001
    # Whatever one document says sixty times is said once.
    assert router.compare(good, bad, vectors, labels, ["d"] * 60, 0)["p"] == 1
    assert router.compare(good, good, vectors, labels, [f"d{i}" for i in range(60)], 0)["p"] == 1
    nothing = router.compare(good, bad, vectors[:0], labels[:0], [], 0)
    assert nothing["p"] == 1 and nothing["questions"] == 0


SUBJECTS = ["heron", "otter", "newt", "badger", "kestrel", "adder", "trout", "beetle", "swift", "hare"]
FINE, COARSE = np.array([0.8, 0.2], np.float32), np.array([0.2, 0.8], np.float32)


def label_table(fine=FINE, coarse=COARSE, questions=120):
    """Questions of two kinds, two to a document; one kind needs level 1, the other level 2."""
    rows = []
    for i in range(questions):
        subject, short = SUBJECTS[i // 2 % len(SUBJECTS)], i % 2 == 0
        text = f"How many {subject}s live at pond {i}?" if short else f"Explain the life of the {subject} of wood {i}."
        rows.append(
            {
                "question_set": "wild",
                "question": f"q{i}",
                "kind": "count" if short else "explain",
                "split": "train",
                "train": True,
                "group": f"moor/d{i // 2}",
                "text": text,
                "label": fine if short else coarse,
            }
        )
    return pd.DataFrame(rows)


def by_key(settings):
    return {recipe.key: recipe for recipe in routing_assets.recipes(settings)}


def use(tools, table):
    """Store labels, and bring the router up to date with them."""

    def build(work):
        path, there = work.file("labels.parquet", table.to_json())
        if not there:
            with work.writing(path) as temporary:
                table.to_parquet(temporary)

    stand_in = Recipe(
        "soft_labels", build, "", "routing", partitioned=False, settings=lambda tools: json.loads(table.to_json())
    )
    recipes = {"soft_labels": stand_in, "router_paper": by_key(tools.settings)["router_paper"]}
    materialise(stand_in, None, tools, recipes)
    outcome = materialise(recipes["router_paper"], None, tools, recipes)
    return outcome, is_fresh(recipes["router_paper"], None, tools, recipes)


@pytest.fixture(scope="module")
def first(tmp_path_factory, make_project):
    """A project with a router trained on the labels of `label_table`. Not to be changed."""
    values = {
        "corpora": {"moor": {"path": "moor"}},
        "question_sets": {"wild": {"path": "wild.jsonl", "corpora": ["moor"], "train": ["train"]}},
        "levels": 2,
        "router": {"hidden": [16], "learning_rate": 0.01, "epochs": 20, "batch_size": 32, "validation": 0.3},
    }
    project = make_project(tmp_path_factory.mktemp("routed"), values)
    outcome, fresh = use(Tools(project.settings), label_table())
    assert fresh and outcome.built and outcome.faults == {}
    return SimpleNamespace(settings=project.settings, home=project.home, artefact=outcome.artefact)


@pytest.fixture
def tools(first, tmp_path):
    """Resources of a copy of that project, and a function that changes its router settings."""
    copy_folder(first.home, tmp_path / "home")

    def changed(**router_settings):
        chosen = first.settings.router.model_copy(update=router_settings)
        return Tools(first.settings.model_copy(update={"home": tmp_path / "home", "router": chosen}))

    return changed


def opened(tools):
    return router.open_router(tools.store.read("router_paper"), tools.encoder.fingerprint, 2)


def test_router_and_its_manifest_say_what_it_was_trained_on(first):
    tools = Tools(first.settings)
    facts = opened(tools).facts
    assert facts == first.artefact.manifest.info["router"]
    assert facts["encoder"] == tools.encoder.fingerprint
    assert facts["labels"] == tools.store.read("soft_labels").manifest.version
    assert (facts["seed"], facts["levels"]) == (0, 2)
    training = facts["training"]["wild"]
    assert (training["splits"], training["questions"], sum(training["chosen"])) == (["train"], 120, 120)
    questions = pd.read_parquet(first.artefact.path("questions.parquet"))
    assert len(questions) == 120 and 0 < questions["held_out"].sum() < 60
    assert questions.groupby("group")["held_out"].nunique().eq(1).all()


def test_damaged_router_is_not_up_to_date_and_is_made_again(first, tools):
    path = tools().store.read("router_paper").path(router.WEIGHTS)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(MogError, match="expected the bytes that were stored"):
        opened(tools())
    outcome, fresh = use(tools(), label_table())
    assert outcome.built and fresh and outcome.faults == {}
    assert outcome.artefact.manifest.version == first.artefact.manifest.version
    assert opened(tools()).facts == first.artefact.manifest.info["router"]


def raising(*arguments):
    raise RuntimeError("CUDA out of memory\n<b>twice</b>")


def constant(*arguments):
    trained = TRAIN(*arguments)
    return replace(trained, weights={name: np.zeros_like(array) for name, array in trained.weights.items()})


TRAIN = router.train


@pytest.mark.parametrize(
    ("train", "settings", "table", "reason", "retried"),
    [
        (raising, {}, label_table(COARSE, FINE), "RuntimeError: CUDA out of memory", True),
        (constant, {}, label_table(COARSE, FINE), "outputs are the same for all 120 training questions", False),
        (TRAIN, {"learning_rate": 1e30}, label_table(), "loss must be finite.*lower router.learning_rate", False),
        (TRAIN, {}, label_table(questions=6), "at least 10 training questions with a soft label, got 6", False),
        (TRAIN, {}, label_table(questions=0), "at least one split under `train`", False),
    ],
)
def test_training_that_fails_leaves_the_previous_router_in_use_and_says_why(
    first, tools, monkeypatch, train, settings, table, reason, retried
):
    monkeypatch.setattr(router, "train", train)
    columns = label_table().columns
    outcome, fresh = use(tools(**settings), table.reindex(columns=columns).astype({"train": bool}))
    assert list(outcome.faults) == ["new_router_is_used"]
    said = outcome.faults["new_router_is_used"]
    assert said.startswith("training failed: ") and "stays in use" in said
    assert re.search(reason, said), said
    manifest = outcome.artefact.manifest
    assert (manifest.version, manifest.files) == (first.artefact.manifest.version, first.artefact.manifest.files)
    assert manifest.info["router"] == opened(tools()).facts == first.artefact.manifest.info["router"]
    assert manifest.info["faults"] == outcome.faults
    assert "stays in use" in outcome.artefact.shown()["which router"]
    assert "<b>" not in outcome.artefact.shown()["which router"]
    # Only what may have passed is tried again.
    assert fresh is not retried
    monkeypatch.setattr(router, "train", TRAIN)
    again, fresh = use(tools(), label_table(COARSE, FINE, questions=100))
    assert again.faults == {} and fresh
    assert again.artefact.manifest.version != first.artefact.manifest.version


def test_too_few_questions_without_a_previous_router_leave_none_that_says_why(first, tools):
    remove(tools().store, "router_paper")
    outcome, fresh = use(tools(), label_table(questions=6))
    assert fresh and "at least 10 training questions" in outcome.artefact.manifest.info["untrained"]
    assert list(outcome.faults) == ["new_router_is_used"] and not outcome.artefact.names("router")


def test_previous_router_for_other_levels_does_not_stand_in(first, tools):
    settings = tools().settings.model_copy(update={"levels": 3})
    labels = label_table(np.array([0.8, 0.2, 0], np.float32), np.array([0, 0.2, 0.8], np.float32))
    outcome, _ = use(Tools(settings), labels)
    assert outcome.faults == {} and outcome.artefact.manifest.info["router"]["levels"] == 3
    assert "number of levels 2, the configuration has 3" in outcome.artefact.shown()["previous router"]
    outcome, _ = use(tools(), label_table(questions=6))
    assert "at least 10 training questions" in outcome.artefact.manifest.info["untrained"]


def test_router_that_is_significantly_worse_is_not_used(first, tools):
    outcome, fresh = use(tools(learning_rate=1e-6, epochs=1), label_table())
    assert list(outcome.faults) == ["new_router_is_used"]
    assert "the new router is significantly worse: loss" in outcome.faults["new_router_is_used"]
    assert fresh and outcome.artefact.manifest.version == first.artefact.manifest.version
    found = outcome.artefact.manifest.info["comparison"]
    assert found["new"] > found["previous"] and found["p"] < router.ALPHA
    questions = pd.read_parquet(outcome.artefact.path("questions.parquet"))
    assert found["questions"] == questions["held_out"].sum() > 10


def test_router_for_labels_that_turned_round_is_used(first, tools):
    outcome, _ = use(tools(), label_table(COARSE, FINE))
    assert outcome.faults == {}
    found = outcome.artefact.manifest.info["comparison"]
    assert found["new"] < found["previous"]
    assert outcome.artefact.manifest.info["router"]["labels"] != first.artefact.manifest.info["router"]["labels"]


def test_router_is_trained_again_when_labels_or_its_settings_moved_and_not_otherwise(first, tools):
    assert not use(tools(), label_table())[0].built
    assert use(tools(patience=5), label_table())[0].built
    assert use(tools(), label_table(questions=100))[0].built
