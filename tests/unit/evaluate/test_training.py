"""Rankings are trained once for every fold and once on all questions, side by side or not."""

import json

import numpy as np
import pytest
from candidate_rows import candidates_of
from click.testing import CliRunner

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.cli import main
from mog_assets.questions.sets import LEVELS
from mog_assets.search import mix, tuned
from mog_assets.search.features import COMPONENTS, names
from mog_assets.search.relevance import Relevance
from mog_assets.search.trainers import prepared_mix
from mog_assets.search.training import FOLDS, Examples, cross_validated, fused_recalls, recalls_of_fewer

pytestmark = pytest.mark.full

EXPERTS, QUESTIONS, PIECES = ["bm25-1", "dense-1"], 120, 12


def examples(moved=()):
    """Questions about 60 documents of 12 pieces each, one of which answers; that of some is moved to another piece."""
    draw = np.random.default_rng(0)
    question, n = np.repeat(np.arange(QUESTIONS), PIECES), QUESTIONS * PIECES
    number = np.tile(np.arange(PIECES), QUESTIONS)
    answer = draw.integers(0, PIECES, QUESTIONS)
    answer[list(moved)] = (answer[list(moved)] + 5) % PIECES
    right = np.flatnonzero(number == answer[question])
    scores = draw.random((n, 2)).astype(np.float32)
    place = np.stack([number, np.full(n, PIECES), np.full(n, 100), np.zeros(n)], axis=1).astype(np.int32)
    beside = np.zeros((n, 2, 2), np.float32)
    piece = question // 2 * PIECES + number
    found = candidates_of(question, piece, scores, place, beside=beside)
    start, end = np.zeros(QUESTIONS, np.int64), np.full(QUESTIONS, 100)
    gold = Relevance(found, end, right, start, end)
    vectors = draw.normal(size=(QUESTIONS, 2 * COMPONENTS)).astype(np.float32)
    spans, given = np.full(QUESTIONS, LEVELS.index("spans")), np.zeros(QUESTIONS, bool)
    documents = [f"d{i // 2}" for i in range(QUESTIONS)]
    return Examples(gold, gold, vectors, np.full(QUESTIONS, 5), documents, spans, given, EXPERTS, [0, 1])


def test_trainings_side_by_side_give_what_they_give_one_after_the_other():
    questions = examples()
    outcomes = []
    for threads in (1, 4):
        prepared = prepared_mix(questions, 7)
        recalls, model = cross_validated(*prepared, threads)
        few = recalls_of_fewer(*prepared, 50, threads)
        outcomes.append((recalls.tobytes(), few.tobytes(), model.booster.model_to_string()))
    assert outcomes[0] == outcomes[1]


def test_every_fold_is_tested_by_a_model_of_the_others_and_the_last_model_is_of_all():
    questions, trained = examples(), []

    class Fused:
        def scores(self, asked):
            return asked.candidates.relative.sum(axis=1)

    def train(rows):
        trained.append(rows)
        return Fused()

    recalls, _ = cross_validated(questions, train)
    assert len(trained) == FOLDS + 1 and trained[-1].all()
    assert all((rows == (questions.folds != fold)).all() for fold, rows in enumerate(trained[:-1]))
    weights = fused_recalls(questions)
    assert recalls.shape == weights.shape and recalls.min() > 0
    trained.clear()
    recalls_of_fewer(questions, train, 30)
    assert [int(rows.sum()) for rows in trained] == [30] * FOLDS


def test_a_model_knows_nothing_of_the_answers_of_its_test_questions():
    tested = examples().folds == 0
    texts = set()
    for moved in ((), np.flatnonzero(tested)):
        questions, train = prepared_mix(examples(moved), 0)
        model = train(~tested)
        part = questions.of(tested).inputs
        texts.add(model.booster.model_to_string() + str(model.scores(part).tolist()))
    assert len(texts) == 1


def test_columns_of_the_trees_are_those_that_are_scored():
    questions, train = prepared_mix(examples(), 0)
    model = train(np.ones(QUESTIONS, bool))
    wanted = [name.replace(" ", "_") for name in names(EXPERTS, EXPERTS)]
    assert model.booster.feature_name() == wanted
    assert model.features(questions.inputs).shape == (QUESTIONS * PIECES, len(wanted))


@pytest.mark.whole
def test_an_asset_trains_once_for_every_fold_and_once_on_all(copied_project, monkeypatch):
    from mog_assets.papers.mix_of_granularity import mog

    tools, recipes, trained = Tools(copied_project.settings), plan.graph(copied_project.settings), []
    for module in (mix, mog, tuned):

        def counted(*arguments, train=module.train, **named):
            # The quick first trees of `mix` are part of a training.
            if arguments[-1] is not True:
                trained.append(train)
            return train(*arguments, **named)

        monkeypatch.setattr(module, "train", counted)
    for key in ("mix", "router", "tuned"):
        trained.clear()
        outcome = materialise(recipes[key], None, tools, recipes, force=True)
        assert len(trained) == FOLDS + 1 == outcome.artefact.manifest.info["recomputed"]["models trained"]
        assert "learning curve" not in outcome.artefact.manifest.info


@pytest.mark.whole
def test_the_learning_curve_is_an_experiment(copied_project, monkeypatch):
    from mog_assets.papers.experiments import learning

    monkeypatch.setattr(learning, "SIZES", (20,))
    arguments = ["experiment", "learning-curve", "--config", str(copied_project.config)]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.stderr
    assert "learning curve of mix" in shown.stdout and "training" in shown.stdout
    (told,) = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert set(told["tables"]) == {
        f"learning curve of {kind}, cross-validated by document" for kind in ("tuned", "mog", "mix")
    }
    for rows in told["tables"].values():
        counts = [row["training questions"] for row in rows]
        assert counts == sorted(counts) and len(counts) > 1
        for row in rows:
            assert 0 <= row["low"] <= row["ER"] <= row["high"] <= 1
            assert row["above fused"] == pytest.approx(row["ER"] - rows[0]["ER"] + rows[0]["above fused"])
