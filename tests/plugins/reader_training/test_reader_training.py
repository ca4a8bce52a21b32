"""Training the reader: adapters, lessons, epochs, calibration, and the asset."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from shared import copy_folder

from mog_assets import config
from mog_assets.answer.reader import calibration, network
from mog_assets.answer.reader.model import source
from mog_assets.answer.reader.spans import SpanReader
from mog_assets.answer.reader.windows import ReaderTokenizer, TextTokens
from mog_assets.build.plan import default, graph
from mog_assets.plugins.reader_training import adapters, assets, fitting, training
from mog_assets.plugins.reader_training.examples import Lesson, TokenisedDocument, shown
from mog_assets.plugins.reader_training.lessons import places, teaches, without
from mog_assets.questions.sets import Evidence, Question
from mog_assets.resources import tensors
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.store import Store


@pytest.fixture(scope="module")
def words():
    """The tokenizer."""
    return ReaderTokenizer(source())


@pytest.fixture(scope="module")
def bert():
    """The encoder."""
    return network.load(source())


def test_merged_adapters_give_the_logits_that_were_trained_and_the_encoder_is_not_changed(bert):
    generator = torch.Generator().manual_seed(1)
    trained = {
        n: torch.randn(t.shape, generator=generator) / 50
        for n, t in adapters.initial(bert, torch.Generator().manual_seed(0)).items()
    }
    before = {name: weight.clone() for name, weight in bert.weights.items()}
    ids = torch.randint(1000, 20000, (2, 30), generator=generator)
    kinds, mask = ids % 3, torch.ones_like(ids)
    mask[1, 20:] = 0
    with torch.inference_mode():
        within = network.logits(adapters.adapting(bert, trained), trained, ids, kinds, mask)
        merged = network.logits(network.merged(bert, trained), trained, ids, kinds, mask)
    assert torch.allclose(within[0], merged[0], atol=1e-3) and torch.allclose(within[1, :20], merged[1, :20], atol=1e-3)
    assert within.std() > 0.01
    assert all(torch.equal(before[name], weight) for name, weight in bert.weights.items())


# Training

BIRDS = {"heron": "grey", "robin": "red", "crow": "black", "swan": "white", "jay": "blue", "wren": "brown"}
EPOCHS = 16
FILL = "It lives near water. It eats in the morning and rests at noon. "


def birds(words):
    """A document on each bird, and a lesson on its colour with another bird that misleads."""
    documents, lessons = {}, []
    for number, (bird, colour) in enumerate(BIRDS.items()):
        text = f"{FILL}The feathers of the {bird} are {colour}. {FILL}"
        documents[number] = TokenisedDocument.of(words, bird.title(), text)
        start = text.index(colour)
        question = words([f"What colour are the feathers of the {bird}?"])[0]
        misleading = [((number + 1) % len(BIRDS), 0)]
        lessons.append(Lesson(question, [(number, start, start + len(colour))], misleading))
    return documents, lessons


def test_examples_point_at_the_answer_and_what_misleads_has_none(words):
    documents, lessons = birds(words)
    random = np.random.default_rng(0)
    for _ in range(20):
        for lesson, (bird, colour) in zip(lessons, BIRDS.items(), strict=True):
            with_answer, misled = shown(lesson, documents, words, random)
            text = f"{FILL}The feathers of the {bird} are {colour}. {FILL}"
            spans = with_answer.window.spans
            assert text[spans[with_answer.first, 0] : spans[with_answer.last, 1]] == colour
            assert misled.first == misled.last == 0


def test_an_answer_longer_than_a_window_is_not_shown(words):
    text = "So it is " * 400
    lesson = Lesson(words(["What is?"])[0], [(0, 0, len(text))], [])
    assert shown(lesson, {0: TokenisedDocument.of(words, "", text)}, words, np.random.default_rng(0)) == []


def test_what_a_batch_reads_is_on_the_device_of_what_is_trained(words, bert, monkeypatch):
    documents, lessons = birds(words)
    some = shown(lessons[0], documents, words, np.random.default_rng(0))
    trained = {n: t.to("meta") for n, t in adapters.initial(bert, torch.Generator().manual_seed(0)).items()}
    read = []

    def logits(bert, trained, *tensors):
        read.extend(tensors)
        return torch.zeros((*tensors[0].shape, 2), device=tensors[0].device)

    monkeypatch.setattr(network, "logits", logits)
    assert training.loss_of(bert, trained, some).device.type == "meta"
    assert {tensor.device.type for tensor in read} == {"meta"}


@pytest.fixture(scope="module")
def taught(words, bert):
    """States after epochs on the birds, and the loss of each."""
    documents, lessons = birds(words)
    states, losses = [training.start(bert, 0)], []
    for number in range(EPOCHS):
        state, loss = training.epoch(bert, words, documents, lessons, states[-1], number, 0, EPOCHS)
        states.append(state)
        losses.append(loss)
    return states, losses


@pytest.mark.full
def test_training_teaches_to_point_at_answers_and_to_tell_that_there_is_none(taught, words):
    states, losses = taught
    assert losses[-1] < losses[0] / 3
    reader = SpanReader(source(), adapters.arrays(training.values(states[-1])))
    for number, (bird, colour) in enumerate(BIRDS.items()):
        other = list(BIRDS)[(number + 1) % len(BIRDS)]
        own = (bird.title(), f"{FILL}The feathers of the {bird} are {colour}. {FILL}")
        wrong = (other.title(), f"{FILL}The feathers of the {other} are {BIRDS[other]}. {FILL}")
        found = reader.best(f"What colour are the feathers of the {bird}?", [wrong, own])
        assert (found[0].text, found[0].passage) == (colour, 1)
        assert own[1][found[0].start : found[0].end] == colour
        assert found[0].score > found[-1].score


def test_training_that_goes_on_from_a_stored_epoch_is_that_which_was_not_interrupted(taught, words, bert):
    documents, lessons = birds(words)
    stored, facts = tensors.decode(tensors.encode(taught[0][3], {"loss": taught[1][2]}))
    state, loss = training.epoch(bert, words, documents, lessons, stored, 3, 0, EPOCHS)
    assert facts["loss"] == taught[1][2] and loss == taught[1][3]
    assert {n: a.tobytes() for n, a in state.items()} == {n: a.tobytes() for n, a in taught[0][4].items()}


# What teaches


def question(**values):
    return Question(id="q", question="Who?", kind="open", split="train", **values)


def test_only_answers_that_a_passage_can_hold_teach():
    evidence = (Evidence("c", "d", 0, 5),)
    assert teaches(question(answer="Ada", evidence=evidence))
    assert not teaches(question(answer="yes", evidence=evidence))
    assert not teaches(question(answer="Ada"))
    assert not teaches(question(answer=" ", evidence=evidence))


def test_an_answer_stands_in_its_evidence_as_whole_words_and_by_any_of_its_names():
    texts = {0: ("T", "Adamant Ada (Lovelace) wrote. Lovelace slept.")}
    asked = question(answer="ada", aliases=("Lovelace",), evidence=())
    assert places(asked, [(0, 0, 29), (0, 29, 45), (0, 0, 7)], texts) == [(0, 8, 11), (0, 30, 38)]
    assert places(question(answer="(Lovelace"), [(0, 0, 45)], texts) == [(0, 12, 21)]
    assert without(asked, [0], [0], texts) == []
    assert without(question(answer="Byron"), [0], [0], texts) == [(0, 0)]


@pytest.mark.parametrize(("documents", "measure"), [(2, 1), (5, 2), (24, 12), (30, 12), (60, 12), (200, 40)])
def test_a_dozen_documents_measure_or_half_of_few_or_a_fifth_of_many(documents, measure):
    assert len(assets.held_out(map(str, range(documents)))) == measure


def test_a_single_document_cannot_train_and_measure():
    with pytest.raises(MogError, match="at least 2 documents, so that one can measure, got 1"):
        assets.held_out(["c/d", "c/d"])


def about(documents, measuring):
    """A question on each document, and what it teaches: its own document has the answer, the next one misleads."""
    asked = [question(answer="Ada", evidence=(Evidence("c", str(d), 0, 3),)) for d in documents]
    position = {("c", str(d)): number for number, d in enumerate(documents)}
    nothing = TextTokens(np.zeros(0, np.int64), np.zeros((0, 2), np.int64))
    lessons = [Lesson(nothing, [(n, 0, 3)], [((n + 1) % len(position), 0)]) for n in position.values()]
    text = TokenisedDocument(nothing, nothing, np.zeros(1, np.int64))
    retrieval = SimpleNamespace(corpora=SimpleNamespace(position=position))
    return assets._Set(asked, retrieval, dict.fromkeys(position.values(), text), lessons, measuring)


def test_nothing_of_a_document_that_measures_is_read_in_training_through_any_question_set():
    few, many = range(24), range(12, 200)
    measuring = assets.held_out(f"c/{d}" for d in (*few, *many))
    first, second = about(few, measuring), about(many, measuring)
    documents, learnt = assets._together([first, second])
    assert len(documents) == len(few) + len(many)
    out = {*np.flatnonzero(first.measures).tolist(), *(len(few) + np.flatnonzero(second.measures)).tolist()}
    read = {place[0] for lesson in learnt for place in (*lesson.answers, *lesson.misleading)}
    assert not read & out and len(learnt) == len(documents) - len(out)
    # A passage that misleads is left out alone.
    assert any(not lesson.misleading for lesson in learnt) and any(lesson.misleading for lesson in learnt)


def test_probabilities_are_calibrated_on_what_they_were_not_fitted_on():
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(scale=4, size=4000), *rng.random((3, 4000))], axis=1)
    right = rng.random(4000) < 1 / (1 + np.exp(-(0.7 * values[:, 0] + 2 * values[:, 2] - 2)))
    made = fitting.fitted(values[::2], right[::2])
    said = made.probabilities(values[1::2])
    rows, error = fitting.curve(said, right[1::2])
    assert error < 0.04 and sum(row["n"] for row in rows) == 2000
    assert made.weights["score"] == pytest.approx(0.7, abs=0.15) and made.intercept == pytest.approx(-2, abs=0.4)
    assert fitting.curve(np.full(2000, 0.9), right[1::2])[1] > 0.3


@pytest.mark.parametrize("right", [True, False])
def test_a_calibration_of_answers_that_are_all_alike_keeps_the_order(right):
    made = fitting.fitted(np.ones((2, 4)), np.array([right, right]))
    low, high = made.probabilities(np.array([[-3, 0, 0, 0], [3, 0, 0, 0]], float))
    assert low < 0.5 < high


def test_answers_are_shown_from_where_eight_of_ten_are_right():
    chances = np.array([0.95, 0.85, 0.82, 0.72, 0.71, 0.65, 0.64, 0.3])
    right = np.array([True, True, True, True, False, False, True, False])
    assert fitting.certain_from(chances, right) == 0.7
    assert fitting.certain_from(chances, ~right) > 1


def test_nothing_is_shown_by_a_reader_whose_questions_are_on_one_document():
    values, right = np.random.default_rng(0).normal(size=(8, 4)), np.arange(8) % 2 == 0
    assert fitting.by_halves(values, right, ["a"] * 8)[0].certain > 1
    made, chances = fitting.by_halves(values, right, list("aabbccdd"))
    assert len(chances) == 8 and made.weights.keys() == set(calibration.FEATURES)


# The asset


@pytest.fixture(scope="module")
def grown(tmp_path_factory, make_project, write_documents, materialise_project):
    """A project with a reader of its own, trained without an interruption. Not to be changed."""
    project = garden_in(tmp_path_factory.mktemp("grown") / "garden", make_project, write_documents)
    assert materialise_project(project.settings, select=[NEEDED]).failures == []
    return project


@pytest.fixture
def garden(tmp_path, make_project, write_documents):
    """A project of which nothing is made."""
    return garden_in(tmp_path / "garden", make_project, write_documents)


def garden_in(tmp_path, make_project, write_documents):
    """A project whose questions have answers and evidence, on six documents."""
    tmp_path.mkdir()
    documents, lines = [], []
    for number, (bird, colour) in enumerate(BIRDS.items()):
        text = f"{FILL}The feathers of the {bird} are {colour}. It weighs {number + 2} pounds. {FILL}"
        documents.append((bird, text))
        for what, said in (("colour are the feathers of", colour), ("is the weight of", f"{number + 2} pounds")):
            at = text.index(said)
            evidence = [{"corpus": "birds", "doc": bird, "start": at, "end": at + len(said)}]
            row = {"id": f"{bird} {said}", "question": f"What {what} the {bird}?", "answer": said, "split": "train"}
            lines.append(json.dumps({**row, "evidence": evidence}))
    write_documents(tmp_path / "birds.jsonl", documents)
    lines.append(lines[-1].replace("pounds", "pounds, dev", 1).replace('"train"', '"dev"'))
    (tmp_path / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    values = {
        "corpora": {"birds": {"path": "birds.jsonl"}},
        "question_sets": {
            "birds": {"path": "questions.jsonl", "corpora": ["birds"], "train": ["train"], "test": ["dev"]}
        },
        "levels": 2,
        "answering": {"reader": "trained", "methods": ["one-step"]},
        "encoder": {"device": "cpu"},
    }
    return make_project(tmp_path, values)


# The reader with all that it is made of.
NEEDED = "++++++++reader"


def stored_reader(project):
    found = Store(project.home).read("reader", None)
    return found, found.path("reader.safetensors").read_bytes()


@pytest.mark.full
def test_a_run_that_is_killed_while_it_trains_goes_on_after_the_last_epoch(garden, grown, materialise_project):
    command = [sys.executable, "-m", "mog_assets.cli", "run", "--select", NEEDED, "--config", str(garden.config)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DAGSTER_HOME": ""}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    epochs = garden.home / "store" / "reader"
    wait = time.monotonic() + 120
    while not (first := list(epochs.glob("epoch_1-*"))) and process.poll() is None and time.monotonic() < wait:
        time.sleep(0.005)
    assert first, "no epoch was stored"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not list(epochs.glob("reader-*")), "the run ended before it was killed"
    kept = {path: path.stat().st_mtime_ns for path in epochs.glob("epoch_*.safetensors")}
    assert materialise_project(garden.settings, select=[NEEDED]).failures == []
    found, data = stored_reader(garden)
    # They stay beside the reader for a while, and are no part of it.
    assert kept and not found.names("epoch")
    assert stored_reader(grown)[1] == data
    assert found.manifest.counts["questions"] < 2 * len(BIRDS) and found.manifest.info["measured on"] > 0


@pytest.mark.full
def test_a_damaged_reader_is_found_and_trained_again(grown, tmp_path, materialise_project):
    garden = SimpleNamespace(home=copy_folder(grown.folder, tmp_path / "garden") / "home")
    garden.settings = config.load(garden.home.with_name("mog.yaml"))
    found, data = stored_reader(garden)
    path = found.path("reader.safetensors")
    path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    from mog_assets.answer.ask import reader
    from mog_assets.build.tools import Tools

    with pytest.raises(MogError, match="expected the bytes that were stored"):
        reader(Tools(garden.settings))
    path.unlink()
    assert materialise_project(garden.settings, select=[NEEDED]).failures == []
    assert stored_reader(garden)[1] == data


def test_a_reader_to_be_trained_needs_questions_to_train_on(garden):
    values = yaml.safe_load(garden.config.read_text(encoding="utf-8"))
    values["question_sets"]["birds"]["train"] = []
    garden.config.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"answering\.reader: expected a reader that needs no training"):
        config.load(garden.config)


def test_nothing_is_trained_unless_it_is_asked_for(garden):
    settings = garden.settings.model_copy(
        update={"answering": garden.settings.answering.model_copy(update={"reader": "neural"})}
    )
    assert "reader" in default(graph(garden.settings)) and "reader" in graph(garden.settings)["answers"].deps
    assert "reader" not in default(graph(settings)) and "reader" not in graph(settings)["answers"].deps
    unmeasured = garden.settings.model_copy(
        update={"answering": garden.settings.answering.model_copy(update={"reader": "trained", "methods": []})}
    )
    assert "reader" in default(graph(unmeasured)) and "answers" not in default(graph(unmeasured))
