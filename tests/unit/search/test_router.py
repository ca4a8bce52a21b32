"""`fused`: features of candidates, and what learned weights make of them."""

import numpy as np
import pytest
from candidate_rows import candidates_of, of_questions

from mog_assets.search.candidates import Inputs
from mog_assets.search.explain import reasons
from mog_assets.search.router import DOCUMENT, FILE, Features, Routed, Router, distinct_ranks, scaled

EXPERTS = tuple(f"{kind}-{level}" for kind in ("bm25", "dense") for level in range(1, 6))
EXPERTS = (*EXPERTS, "title", "mention", "pagerank")
ROUTER = Router.shipped()


def drawn(questions=8, pieces=30, seed=0, **more):
    return of_questions(np.random.default_rng(seed).random((questions, pieces, len(EXPERTS))), **more)


def test_parts_of_experts_and_document_sum_to_the_score_up_to_a_constant_of_the_question():
    candidates = drawn()
    parts = ROUTER.parts(candidates, EXPERTS, np.arange(len(candidates.question)))
    assert parts.shape == (len(candidates.question), len(EXPERTS) + 1)
    features = Features(candidates, EXPERTS)
    wanted = scaled(candidates, ROUTER.of_texts(features))[0] + ROUTER.of_others(features).sum(axis=1)
    for question in range(candidates.count):
        rest = (parts.sum(axis=1) - wanted)[candidates.question == question]
        np.testing.assert_allclose(rest, rest[0], atol=1e-5)


def test_a_question_gets_the_same_scores_alone_and_among_others():
    scores = np.random.default_rng(0).random((20, 30, len(EXPERTS)))
    together = ROUTER.scores(of_questions(scores), EXPERTS).reshape(20, 30)
    alone = [ROUTER.scores(of_questions(own[None]), EXPERTS) for own in scores]
    np.testing.assert_allclose(together, np.stack(alone), atol=1e-6)


def test_scores_of_an_expert_times_a_number_change_nothing():
    scores = np.random.default_rng(1).random((5, 30, len(EXPERTS)))
    scores[..., -2:] = 0
    times = np.ones(len(EXPERTS))
    times[[0, 7]] = 8, 0.25
    one, other = (ROUTER.scores(of_questions(scores * factor), EXPERTS) for factor in (np.ones_like(times), times))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_an_expert_that_is_sure_of_a_question_gives_more_than_one_that_tells_no_candidate_apart():
    scores = np.random.default_rng(2).random((1, 30, len(EXPERTS)))
    scores[0, :, 0], scores[0, 7, 0] = 0.1 * scores[0, :, 0], 1
    scores[0, :, 5] = 1
    weights = dict(zip(EXPERTS, ROUTER.weights(of_questions(scores), EXPERTS)[0], strict=True))
    assert weights["bm25-1"] > max(w for name, w in weights.items() if name != "bm25-1") and weights["dense-1"] == 0


def test_vectors_say_nothing_where_the_encoder_knows_no_word_of_the_texts():
    candidates = drawn(vocabulary=0.0)
    weights = ROUTER.weights(candidates, EXPERTS)
    assert (weights[:, 5:10] == 0).all() and (weights[:, :5].max(axis=1) > 0).all()
    other = candidates.scores.copy()
    other[:, 5:10] = np.random.default_rng(9).random((len(other), 5))
    blind = of_questions(other.reshape(8, 30, -1), vocabulary=0.0)
    np.testing.assert_allclose(ROUTER.scores(candidates, EXPERTS), ROUTER.scores(blind, EXPERTS), atol=1e-5)


def test_pieces_of_a_text_share_its_rank():
    scores = np.array([[0.3], [0.9], [0.9], [0.5], [0.1], [0.1], [0.7]])
    candidates = candidates_of([0, 0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2], scores)
    assert distinct_ranks(candidates, np.array([0])).ravel().tolist() == [2, 0, 0, 1, 1, 1, 0]


def test_pieces_of_a_document_know_its_best_piece_and_no_others():
    scores = np.random.default_rng(3).random((6, len(EXPERTS)))
    place = np.array([[0, 3, 9, 0], [1, 3, 9, 0], [2, 3, 9, 0], [0, 2, 9, 0], [1, 2, 9, 0], [0, 1, 9, 0]])
    found = Features(candidates_of([0, 0, 0, 0, 0, 1], [0, 1, 2, 3, 4, 0], scores, place), EXPERTS)
    best = found.further[:, 2]
    assert best[:3] == pytest.approx(found.rule[:3].max()) and best[3:5] == pytest.approx(found.rule[3:5].max())
    assert best[5] == found.rule[5]


@pytest.mark.parametrize("levels", [1, 3, 8])
def test_other_numbers_of_levels_get_weights_between_those_of_five_that_sum_to_the_same(levels):
    own = ROUTER.at_levels(levels)
    assert own.of_experts.shape == (4, 2, levels) and len(own.deviations) == own.of_experts.size + len(own.further)
    if levels > 1:
        ends = [0, -1]
        np.testing.assert_allclose(own.of_experts[..., ends] * levels / 5, ROUTER.of_experts[..., ends], rtol=1e-5)
    experts = (*(f"{kind}-{n + 1}" for kind in ("bm25", "dense") for n in range(levels)), "title")
    scores = np.random.default_rng(4).random((3, 12, len(experts)))
    assert np.isfinite(ROUTER.scores(of_questions(scores), experts)).all()


def test_what_texts_name_counts_where_one_document_stands_out_among_those_that_are_named():
    alike = np.repeat(np.linspace(0, 1, 40)[None, :, None], len(EXPERTS), axis=2)

    def weight(named):
        alike[0, :, -2], alike[0, :, -1] = named, 0
        return ROUTER.weights(of_questions(alike), EXPERTS)[0, -2]

    assert weight([*np.zeros(39), 1]) == pytest.approx(0.15)
    assert weight([*np.zeros(20), *np.ones(20)]) == weight(np.zeros(40)) == 0


def test_that_a_document_has_a_good_text_is_said_of_its_other_texts_and_not_of_that_one():
    place = np.array([[0, 3, 9, 0], [1, 3, 9, 0], [2, 3, 9, 0], [0, 1, 9, 0]])
    scores = np.zeros((4, len(EXPERTS)))
    scores[:, :10] = np.array([1.0, 0.1, 0.05, 0.12])[:, None]
    candidates = candidates_of([0, 0, 0, 0], [0, 1, 2, 3], scores, place)
    inputs = Inputs(candidates, np.zeros((1, 4), np.float32), np.array([3]), [0, 5])
    model = Routed(ROUTER, EXPERTS)
    said = reasons(model, inputs, model.scores(inputs), np.arange(4), EXPERTS, ["bm25-1", "dense-1"])
    assert [text.count("the best text of its document") for text in said] == [0, 1, 1, 0]


def test_no_candidates_have_no_scores():
    none = of_questions(np.zeros((2, 0, len(EXPERTS))))
    assert ROUTER.scores(none, EXPERTS).shape == (0,) and (ROUTER.weights(none, EXPERTS) == 0).all()
    assert ROUTER.parts(none, EXPERTS, np.zeros(0, np.int64)).shape == (0, len(EXPERTS) + 1)


def test_the_weights_of_the_package_are_small_and_finite_and_have_a_card():
    assert all(np.isfinite(array).all() and array.dtype == np.float32 for array in ROUTER.arrays.values())
    assert FILE.stat().st_size < 200_000 and "benchmarks/router.py learn" in FILE.with_suffix(".md").read_text()
    assert DOCUMENT not in EXPERTS
