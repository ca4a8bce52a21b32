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
from mog_assets.resources.tensors import encode
from mog_assets.search.models import ARRAYS
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


TRAIN = router.train
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


# A router in the store


def put(path, weights, encoder="e1", levels=3):
    """A stored router with a manifest that names its bytes."""
    data = encode(weights, {"encoder": encoder, "levels": levels})
    path.write_bytes(data)
    files = {ARRAYS: {"sha256": hashlib.sha256(data).hexdigest()}}
    return SimpleNamespace(manifest=SimpleNamespace(files=files), path=lambda name: path)


def test_stored_router_is_read_back(tmp_path, trained):
    again = router.open_router(put(tmp_path / "r", trained.weights), "e1", 3)
    assert again.keys() == trained.weights.keys()
    for name, array in again.items():
        np.testing.assert_array_equal(array, trained.weights[name])


def test_any_changed_byte_is_an_error(tmp_path, trained):
    stored = put(tmp_path / "r", trained.weights)
    data = (tmp_path / "r").read_bytes()
    for at in np.linspace(0, len(data) - 1, 40).astype(int):
        changed = bytearray(data)
        changed[at] ^= 1
        (tmp_path / "r").write_bytes(changed)
        with pytest.raises(MogError, match="run `mog run`"):
            router.open_router(stored, "e1", 3)


@pytest.mark.parametrize(
    ("encoder", "levels", "message"), [("e2", 3, "encoder e1, expected e2"), ("e1", 5, "levels 3, expected 5")]
)
def test_router_of_another_encoder_or_other_levels_names_both_sides(tmp_path, trained, encoder, levels, message):
    with pytest.raises(MogError, match=message):
        router.open_router(put(tmp_path / "r", trained.weights), encoder, levels)


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
    stored = put(tmp_path / "r", damage(trained.weights))
    found = checks.WEIGHTS_ALIVE.run(SimpleNamespace(draft=stored, info={}))
    assert found is None if fault is None else re.search(fault, found)
    assert checks.WEIGHTS_ALIVE.blocking


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


# The asset


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
    tools, manifest = Tools(first.settings), first.artefact.manifest
    facts = manifest.info["router"]
    assert facts["encoder"] == tools.encoder.fingerprint
    assert facts["labels"] == tools.store.read("soft_labels").manifest.version
    assert (facts["seed"], facts["levels"], facts["training"]) == (0, 2, {"wild": 120})
    counts = manifest.counts
    assert counts["questions"] + counts["validation questions"] == 120 and 0 < counts["validation questions"] < 60
    shown = first.artefact.shown()["mean weights by kind of question"]
    assert "| count |" in shown and "| explain |" in shown


def test_damaged_router_is_refused_and_made_again(first, tools):
    path = tools().store.read("router_paper").path(ARRAYS)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(MogError, match="expected the bytes that were stored"):
        opened(tools())
    other = use(tools(), label_table(COARSE, FINE))[0]
    assert other.built and other.faults == {}
    assert use(tools(), label_table())[0].artefact.manifest.version == first.artefact.manifest.version
    assert opened(tools()).keys()


def test_training_that_fails_leaves_the_previous_router_in_the_store(first, tools, monkeypatch):
    def constant(*arguments):
        trained = TRAIN(*arguments)
        return replace(trained, weights={name: np.zeros_like(array) for name, array in trained.weights.items()})

    monkeypatch.setattr(router, "train", constant)
    with pytest.raises(MogError, match="outputs are the same for all 120 training questions"):
        use(tools(), label_table(COARSE, FINE))
    assert tools().store.read("router_paper").manifest.version == first.artefact.manifest.version


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (label_table(questions=6), "at least 10 training questions with a soft label, got 6"),
        (label_table(questions=0).reindex(columns=label_table().columns), "at least one split under `train`"),
    ],
)
def test_too_few_questions_leave_no_router_and_say_why(first, tools, table, reason):
    outcome, fresh = use(tools(), table.astype({"train": bool}))
    assert fresh and reason in outcome.artefact.manifest.info["untrained"]
    assert list(outcome.faults) == ["router_is_trained"] and not outcome.artefact.names("arrays")


def test_router_is_trained_again_when_labels_or_its_settings_moved_and_not_otherwise(first, tools):
    assert not use(tools(), label_table())[0].built
    assert use(tools(patience=5), label_table())[0].built
    assert use(tools(), label_table(questions=100))[0].built
