"""BM25's k1, b and scale for each level, fitted on training questions."""

import contextlib
import json
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mog_assets import automation
from mog_assets.answer import find
from mog_assets.corpus.questions import load_questions
from mog_assets.errors import ConfigError, MogError
from mog_assets.evaluation.measures import evaluate
from mog_assets.evaluation.runs import read_runs
from mog_assets.retrieval import length_norm
from mog_assets.retrieval.bm25 import Bm25Index, Parameters, open_parameters, statistics
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.length_norm import Asked, balanced, divided, mixes, powers, units
from mog_assets.retrieval.methods import parse
from mog_assets.retrieval.search import Bm25Searcher
from mog_assets.retrieval.tokens import query_terms
from mog_assets.routing import labels
from mog_assets.routing.retrieve import Retrieval, needs
from resources.points import interrupt_with
from resources.recipe import Tools, materialise

FITTED = ("soft_labels", "runs")
DROWNED, HALVED, LONG = 48, 48, 4


def words(rng, count):
    return " ".join(f"word{rng.randrange(400)}" for _ in range(count))


def drowned(number, rng):
    """One short document answers; long ones name what is asked for more often."""
    asked = f"drowned{number}"
    yield f"{asked} short", f"{asked} is the name of {words(rng, 6)}.", True
    for other in range(LONG):
        yield f"{asked} long {other}", f"{asked} {asked} {asked} {asked} {words(rng, 44)}.", False


def halved(number, rng):
    """The answer has the two terms in different chunks of level 1; in others they stand together, and much more."""
    first, second = f"Left{number}", f"Right{number}"
    yield f"{first} both", f"{first} {words(rng, 27)}. {second} {words(rng, 27)}.", True
    for other in range(2 * LONG):
        yield f"{first} other {other}", f"{first} {second} {words(rng, 30)}. Then {words(rng, 46)}.", False


def write(folder, questions):
    rng = random.Random(0)
    documents, asked = [], []
    for kind, count, make, text in (
        ("drowned", DROWNED, drowned, "What is drowned{0}?"),
        ("halved", HALVED, halved, "What are left{0} and right{0}?"),
    ):
        for number in range(count):
            for identity, content, answers in make(number, rng):
                documents.append({"id": identity, "title": "", "text": content})
                if answers:
                    evidence = [{"corpus": "notes", "doc": identity, "start": 0, "end": len(content)}]
                    row = {"id": f"{kind} {number}", "question": text.format(number), "kind": kind}
                    asked.append({**row, "split": "dev" if number % 6 == 0 else "train", "evidence": evidence})
    lines = {"notes.jsonl": documents, "questions.jsonl": questions(asked)}
    for name, rows in lines.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def project(make_project, folder, questions=lambda rows: rows, **values):
    folder.mkdir(exist_ok=True)
    write(folder, questions)
    question_set = {"path": "questions.jsonl", "corpora": ["notes"], "train": ["train"], "test": ["dev"]}
    return make_project(
        folder,
        {
            "corpora": {"notes": {"path": "notes.jsonl"}},
            "question_sets": {"asked": question_set},
            "levels": 2,
            "finest_chars": 400,
            "buckets": 2,
            "k_r": 8,
            "bm25": {"length_norm": True},
            "soft_labels": {"method": "hitrate"},
            "methods": ["fixed-1", "fixed-2", "fused-1", "fused-2"],
            **values,
        },
    )


def built(settings, *keys):
    """Materialises assets and all they are made from; gives the outcomes by key."""
    tools, recipes = Tools(settings), automation.graph(settings)
    return {
        key: materialise(recipes[key], "notes" if recipes[key].partitioned else None, tools, recipes)
        for key in automation.needed(recipes, keys)
    }


@pytest.fixture(scope="module", autouse=True)
def few_parameters():
    """Two values of each are enough to tell good ones from bad ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(length_norm, "K1", (0.4, 2.4))
        patch.setattr(length_norm, "B", (0.5, 1.0))
        yield


@pytest.fixture(scope="module")
def on(make_project, tmp_path_factory):
    made = project(make_project, tmp_path_factory.mktemp("length_norm") / "on")
    outcomes = built(made.settings, *FITTED)
    found = open_parameters(outcomes["length_norm"].artefact)
    return SimpleNamespace(**vars(made), outcomes=outcomes, parameters=found, read=Tools(made.settings).store.read)


@pytest.fixture(scope="module")
def off(make_project, tmp_path_factory):
    made = project(make_project, tmp_path_factory.mktemp("length_norm") / "off", bm25={})
    outcomes = built(made.settings, *FITTED)
    return SimpleNamespace(**vars(made), outcomes=outcomes, read=Tools(made.settings).store.read)


def opened(at):
    return Corpora.open(at.read, at.settings, ["notes"])


def asked(at, split):
    return load_questions(at.read("questions", None).path("asked.parquet"), [split])


def recall(at):
    """ER of every test question, by method and question."""
    runs = read_runs(at.read("runs", None).path("runs.parquet"))
    return evaluate(runs, {"asked": asked(at, "dev")}, 2).set_index(["method", "question"])["ER"]


def test_parameters_are_found_that_answer_where_long_chunks_drown_short_ones(on, off):
    short = [f"drowned {number}" for number in range(0, DROWNED, 6)]
    before, now = recall(off), recall(on)
    for level in (1, 2):
        assert (on.parameters[level].k1, on.parameters[level].b) == (0.4, 1.0)
        assert before[f"fixed-{level}"][short].mean() < 0.8
        # Test questions, which nothing was fitted on.
        np.testing.assert_array_equal(now[f"fixed-{level}"][short], 1)


def test_scale_lets_the_level_that_knows_better_decide(on, off):
    both = [f"halved {number}" for number in range(0, HALVED, 6)]
    assert on.parameters[2].scale > on.parameters[1].scale
    assert recall(on)["fused-1"][both].mean() > recall(off)["fused-1"][both].mean() + 0.1
    corpora, every = opened(on), asked(on, "train")
    part = [Asked(corpora, every)]
    plain = {level: replace(by, scale=1.0) for level, by in on.parameters.items()}
    under = mixes(part, plain, lambda key, make: make(), "train")
    assert under([by.scale for by in on.parameters.values()]).mean() > under([1.0, 1.0]).mean() + 0.05


def test_recall_is_that_of_the_evaluation(on):
    questions, corpora = asked(on, "dev"), opened(on)
    part = Asked(corpora, questions)
    ids = [q.id for q in questions]
    for level in (1, 2):
        hits = part.search(corpora.bm25(level), level)
        found = part.recall(hits, np.full(len(hits.chunk), level))
        np.testing.assert_allclose(found, recall(on)[f"fixed-{level}"][ids])
        entering = part.candidates([part.search(corpora.bm25(j), j) for j in (1, 2)])
        np.testing.assert_allclose(part.mixed(entering, [1, 1], level), recall(on)[f"fused-{level}"][ids])


def test_scores_in_another_unit_give_the_same_mix(on):
    part = [Asked(opened(on), asked(on, "train"))]
    found = []
    for unit in (1.0, 8.0):
        levels = {1: Parameters(0.4, 1.0), 2: Parameters(0.4, 1.0, unit)}
        under = mixes(part, levels, unkept, "train")
        begin = units(part, levels, unkept)
        scales = powers(balanced(under, begin, lambda steps: None))
        found.append((powers(begin), scales, under(scales)))
    (begin, scales, recalls), (begin_8, scales_8, recalls_8) = found
    assert [begin_8[0], begin_8[1] * 8] == begin
    assert [scales_8[0], scales_8[1] * 8] == scales != begin
    np.testing.assert_array_equal(recalls_8, recalls)


def test_best_scores_of_every_level_have_a_mean_of_about_one_to_begin_with(on):
    corpora, questions = opened(on), asked(on, "train")
    exponents = units([Asked(corpora, questions)], {level: Parameters(1.5, 0.75) for level in (1, 2)}, unkept)
    for level, scale in enumerate(powers(exponents), 1):
        (index,) = corpora.weighted(corpora.counts(level), Parameters(1.5, 0.75, scale))
        _, scores = index.search(query_terms([q.question for q in questions]), 1)
        assert 2**-0.25 <= scores.mean() <= 2**0.25


def unkept(key, make):
    return make()


def test_without_it_levels_are_weighted_by_the_settings_alone(off, on):
    assert "length_norm" not in automation.graph(off.settings)
    assert "length_norm" not in needs([parse("fused-1", off.settings)], off.settings).keys
    corpora = opened(off)
    for level in (1, 2):
        assert corpora.parameters(level) == Parameters(1.5, 0.75, 1.0)
        counts = corpora.counts(level)
        expected = Bm25Index(counts[0], statistics(counts), 1.5, 0.75)
        same(corpora.bm25(level)[0], expected)
        # What is no level, such as the sentence graph, is weighted by the settings whether it is on or off.
        same(opened(on).weighted(counts)[0], expected)


def same(index, other):
    queries = query_terms(["What is drowned3?", "What are left5 and right5?"])
    for ours, theirs in zip(index.search(queries, 20), other.search(queries, 20), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (index.search(queries, 20)[1] > 0).any()


def test_runs_and_single_questions_and_soft_labels_use_the_same_parameters(on, off):
    corpora, test = opened(on), asked(on, "dev")
    runs = read_runs(on.read("runs", None).path("runs.parquet"))
    indexes = {}
    for level, by in on.parameters.items():
        counts = corpora.counts(level)
        indexes[level] = [Bm25Index(counts[0], statistics(counts), by.k1, by.b, by.scale)]
        (expected,) = indexes[level][0].search(query_terms([test[0].question]), 2)[1]
        ranked = runs[(runs["method"] == f"fixed-{level}") & (runs["question"] == test[0].id)].sort_values("rank")
        np.testing.assert_array_equal(ranked["score"][:2], expected)
        found = find(on.settings, test[0].question, f"fixed-{level}", 2, ["notes"])
        np.testing.assert_array_equal([passage["score"] for passage in found.passages], expected)
    every = load_questions(on.read("questions", None).path("asked.parquet"), ["train", "dev"])
    queries = [q.question for q in every]
    best = labels.best_chunks(
        Bm25Searcher(query_terms(queries), indexes.__getitem__, corpora.starts), [1, 2], len(every)
    )
    identities = corpora.layout.documents
    texts = {("notes", identities[i]): text for i, (_, text) in corpora.texts(range(len(identities))).items()}
    evidence = query_terms([labels.label_text(q, texts) for q in every])
    expected = labels.similarities_hitrate(evidence, {level: corpora.counts(level) for level in (1, 2)}, best)
    table = pd.read_parquet(on.read("soft_labels", None).path("labels.parquet"))
    np.testing.assert_array_equal(np.stack(table["label"]), labels.soft_labels(expected, (0.8, 0.2)))
    found, before = (
        labels.similarities(Retrieval(opened(at), queries, None, "", None), every, "hitrate", False, None)
        for at in (on, off)
    )
    np.testing.assert_array_equal(found, expected)
    assert (found > before).any()


def test_scores_are_linear_in_the_scale(on):
    counts = opened(on).counts(1)
    queries = query_terms([q.question for q in asked(on, "dev")])
    plain, scaled = (Bm25Index(counts[0], statistics(counts), 0.9, 0.4, s).search(queries, 5) for s in (1.0, 0.25))
    np.testing.assert_array_equal(plain[0], scaled[0])
    np.testing.assert_array_equal(plain[1] * np.float32(0.25), scaled[1])


def fresh(make_project, folder, **values):
    made = project(make_project, folder, **values)
    return made, lambda: built(made.settings, "length_norm")["length_norm"]


def test_changed_test_questions_change_nothing(make_project, tmp_path):
    made, run = fresh(make_project, tmp_path / "p")
    before = run()
    assert before.artefact.manifest.info["recomputed"]["cells"] > 0

    def harder(rows):
        return [{**q, "question": "Why word7?"} if q["split"] == "dev" and q["kind"] == "drowned" else q for q in rows]

    write(made.folder, harder)
    now = run()
    assert now.built and now.artefact.manifest.inputs != before.artefact.manifest.inputs
    assert now.artefact.manifest.version == before.artefact.manifest.version
    assert now.artefact.manifest.info["recomputed"] == {}
    assert now.artefact.manifest.info["shown"] == before.artefact.manifest.info["shown"]

    def other(rows):
        return [{**q, "question": "Why word7?"} if q["id"] == "drowned 1" else q for q in rows]

    write(made.folder, other)
    again = run()
    assert again.artefact.manifest.info["recomputed"]["cells"] > 0
    # Measured anew, and the same came of it: nothing that follows has to be made again.
    assert again.artefact.manifest.info["shown"] != before.artefact.manifest.info["shown"]
    assert again.artefact.manifest.version == before.artefact.manifest.version


def test_interrupted_fit_goes_on_where_it_was(make_project, tmp_path):
    made, run = fresh(make_project, tmp_path / "p")
    built(made.settings, "bm25/level_1", "bm25/level_2", "questions")
    left, moved = 7, 0

    class Interrupted(BaseException):
        pass

    def stop(point):
        nonlocal moved
        moved += point == "file moved"
        if moved == left:
            raise Interrupted

    interrupt_with(stop)
    with pytest.raises(Interrupted):
        run()
    interrupt_with(None)
    resumed = run().artefact
    other, run = fresh(make_project, tmp_path / "whole")
    whole = run().artefact
    cells = whole.manifest.info["recomputed"]["cells"]
    assert resumed.manifest.info["recomputed"]["cells"] == cells - left
    assert resumed.manifest.version == whole.manifest.version
    assert [path.suffix for path in resumed.folder.glob("*.*") if not path.name.startswith(".")] == [".json", ".json"]


def test_only_training_questions_with_evidence_are_divided_and_documents_stay_together(on):
    train = asked(on, "train")
    without = replace(train[0], id="without", evidence=())
    twin = replace(train[0], id="twin")
    fitted, held_out = ({q.id for q in part["s"]} for part in divided({"s": [*train, without, twin]}, 0))
    assert fitted and held_out and not fitted & held_out
    assert fitted | held_out == {q.id for q in train} | {"twin"}
    assert ("twin" in fitted) == (train[0].id in fitted)


def test_samples_are_bounded_and_seeded(on, monkeypatch):
    monkeypatch.setattr(length_norm, "SAMPLE", 10)
    train = {"s": asked(on, "train")}
    drawn = [[[q.id for q in part["s"]] for part in divided(train, seed)] for seed in (0, 0, 1)]
    assert [len(part) for part in drawn[0]] == [10, 10]
    assert drawn[0] == drawn[1] != drawn[2]


def test_level_keeps_the_settings_where_nothing_better_is_found(on, monkeypatch):
    monkeypatch.setattr(length_norm, "K1", (2.4,))
    monkeypatch.setattr(length_norm, "B", (0.0,))
    monkeypatch.setattr(length_norm, "STEPS", (0,))
    parts = divided({"asked": asked(on, "train")}, 0)
    fitted, held_out = ([Asked(opened(on), part["asked"])] for part in parts)
    settings = on.settings.model_copy(update={"bm25": on.settings.bm25.model_copy(update={"k1": 0.4, "b": 1.0})})
    found = length_norm.fit(fitted, held_out, settings, unkept, silent)
    assert {level: (by.k1, by.b) for level, by in found.levels.items()} == {1: (0.4, 1.0), 2: (0.4, 1.0)}
    assert {(by.k1, by.b) for by in found.best.values()} == {(2.4, 0.0)}
    assert found.verdicts[1].after < found.verdicts[1].before
    assert not any(verdict.better for verdict in found.verdicts.values())


@contextlib.contextmanager
def silent(total, what):
    yield lambda steps: None


def test_table_says_what_was_fitted(on):
    shown = on.outcomes["length_norm"].artefact.manifest.info["shown"]
    assert {"levels", "scales", "recall by k1 and b"} <= set(shown)
    assert "k1 0.4, b 1" in shown["levels"]
    assert on.outcomes["length_norm"].artefact.manifest.counts["questions fitted on"] > 50


def test_without_training_questions_the_configuration_is_refused(make_project, tmp_path):
    with pytest.raises(ConfigError, match=r"bm25\.length_norm: expected false .* question_sets\.NAME\.train"):
        make_project(tmp_path, {"corpora": {"notes": {"path": "notes.jsonl"}}, "bm25": {"length_norm": True}})


def test_training_questions_without_evidence_are_told(make_project, tmp_path):
    made, run = fresh(make_project, tmp_path / "p", questions=lambda rows: [{**q, "evidence": []} for q in rows])
    with pytest.raises(ConfigError, match="expected training questions with evidence to fit it on, got none among 80"):
        run()


def test_damaged_parameters_are_told_and_fitted_again(make_project, tmp_path):
    made, run = fresh(make_project, tmp_path / "p")
    before = run().artefact
    path = before.path("parameters.json")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"0.4", b"0.9"))
    corpora = Corpora.open(Tools(made.settings).store.read, made.settings, ["notes"])
    with pytest.raises(MogError, match="length_norm .*expected the bytes that were stored.*run `mog run`"):
        corpora.bm25(1)
    assert run().built
    assert path.read_bytes() == data
    with pytest.raises(MogError, match="length_norm: expected parameters of level 3, got those of 2 levels"):
        corpora.parameters(3)
