"""`tuned`: the weights of `fused`, fitted on few questions."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from candidate_rows import of_questions

from mog_assets.build.tools import Tools
from mog_assets.evaluate.choice import choose, deciding
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact
from mog_assets.search import tuned
from mog_assets.search.index import expert_names
from mog_assets.search.models import ARRAYS, Opening, Tuned, facts, open_tuned
from mog_assets.search.router import Router

EXPERTS = ("bm25-1", "bm25-2", "bm25-3", "dense-1", "dense-2", "dense-3", "title", "mention")
PIECES = 20
START = Router.shipped().at_levels(3)


def questions_answered_by(expert, count, seed=0):
    """Candidates of questions whose evidence is where one expert is best, and the characters of evidence in each."""
    scores = np.random.default_rng(seed).random((count, PIECES, len(EXPERTS)))
    scores[..., -2:] = 0
    best = scores[..., EXPERTS.index(expert)].argmax(axis=1)
    covered = np.zeros((count, PIECES), np.int64)
    covered[np.arange(count), best] = 100
    return of_questions(scores), covered.ravel()


def share_of(expert, router):
    """The share of an expert in what all give their best candidates, over questions that no training saw."""
    weights = router.weights(questions_answered_by(expert, 50, seed=1)[0], EXPERTS)
    return float((weights[:, EXPERTS.index(expert)] / weights.sum(axis=1)).mean())


@pytest.mark.parametrize("expert", ["dense-1", "bm25-1", "dense-3"])
def test_what_answers_questions_weighs_more_and_the_more_questions_say_so_the_more(expert):
    routers = [START, *(tuned.train(*questions_answered_by(expert, n), EXPERTS) for n in (4, 20, 200))]
    shares = [share_of(expert, router) for router in routers]
    assert shares == sorted(shares) and len(set(shares)) == 4


def test_few_questions_that_say_nothing_leave_the_weights_near_those_of_fused():
    candidates, covered = questions_answered_by("bm25-1", 10)
    shuffled = np.random.default_rng(1).permuted(covered.reshape(10, PIECES), axis=1).ravel()
    router = tuned.train(candidates, shuffled, EXPERTS)
    assert abs(share_of("bm25-1", router) - share_of("bm25-1", START)) < 0.02


def test_questions_without_evidence_teach_nothing():
    candidates, covered = questions_answered_by("dense-1", 10)
    assert np.array_equal(tuned.train(candidates, 0 * covered, EXPERTS).further, START.further)
    more, own = questions_answered_by("dense-1", 12)
    own.reshape(12, PIECES)[10:] = 0
    assert share_of("dense-1", tuned.train(more, own, EXPERTS)) > share_of("dense-1", START)


def test_candidates_that_may_be_relevant_or_not_are_left_out():
    candidates, covered = questions_answered_by("dense-1", 30)
    # The best of BM25, were they wrong, would count against it.
    usable = np.ones(len(covered), bool)
    best = candidates.scores[:, 0].reshape(30, PIECES).argmax(axis=1) + PIECES * np.arange(30)
    usable[best[covered[best] == 0]] = False
    whole, part = (tuned.train(candidates, covered, EXPERTS, own) for own in (None, usable))
    assert share_of("bm25-1", whole) < share_of("bm25-1", part)


def test_weights_stay_finite_however_plain_the_questions_are():
    router = tuned.train(*questions_answered_by("dense-1", 2000), EXPERTS)
    assert all(np.isfinite(array).all() for array in router.arrays.values()) and 0 < router.names < 10


def stored(tmp_path, files):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    entries = {name: {"file": name, "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    return Artefact(SimpleNamespace(files=entries), tmp_path)


def test_a_stored_model_is_read_as_it_was_and_a_foreign_or_broken_one_is_refused(sample_project):
    tools = Tools(sample_project.settings)
    artefact, encoder = tools.store.read("tuned"), tools.encoder.fingerprint
    names = expert_names(sample_project.settings)
    opening = Opening(encoder, names, [], [])
    model = open_tuned(artefact, opening)
    assert isinstance(model, Tuned) and not np.array_equal(model.router.further, Router.shipped().further)
    assert model.files(facts("tuned", opening))[ARRAYS] == artefact.path(ARRAYS).read_bytes()
    with pytest.raises(MogError, match="tuned .* was trained for encoder"):
        open_tuned(artefact, replace(opening, encoder="other"))


def test_a_choice_says_with_how_many_questions_it_would_decide():
    draw = np.random.default_rng(0)
    base, documents = draw.random(40), [f"d{i}" for i in range(40)]
    better = base + 0.02 + 0.2 * np.tile([1, -1], 20)
    why = choose({"fused": base, "tuned": better}, ("tuned",), documents, 0).why
    needed = deciding(better - base, documents)
    assert needed > 40 and why.endswith(f"; about {needed:,} questions like these would decide")
    # Ten times as many, and it is decided.
    many = np.tile(better - base, -(-needed // 40))
    assert deciding(many, [f"d{i}" for i in range(len(many))]) is None
    assert "would decide" not in choose({"fused": base, "tuned": base - 0.1}, ("tuned",), documents, 0).why
    assert deciding(np.zeros(40), documents) is None and deciding(better - base, ["one"] * 40) is None


def test_weights_that_are_no_numbers_or_too_few_are_refused(tmp_path):
    opening = Opening("e", EXPERTS, [], [])
    known = facts("tuned", opening)
    broken = replace(START, further=np.full_like(START.further, np.nan))
    for router in (broken, replace(START, names=float("inf")), Router.shipped()):
        with pytest.raises(MogError, match="expected a number for each of of experts, further"):
            open_tuned(stored(tmp_path, Tuned(router, EXPERTS).files(known)), opening)
