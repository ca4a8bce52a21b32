"""`rrf` and `umg`: what each expert gives, by hand, and that they are shown as published."""

import numpy as np
import pytest
from candidate_rows import EXPERTS, of_questions

from mog_assets.config import Settings
from mog_assets.ranking import rivals
from mog_assets.ranking.blend import Blend
from mog_assets.ranking.exact import latest
from mog_assets.ranking.explain import KNOWN, reasons
from mog_assets.ranking.models import Inputs, Rules
from mog_assets.retrieval.methods import named_methods, rankings

BOTH = [rivals.RRF, rivals.UMG]
TWO = ("bm25-1", "dense-1")


def random_questions(questions=6, n=20):
    return of_questions(np.random.default_rng(3).random((questions, n, len(EXPERTS))))


def asked_of(candidates):
    questions = len(candidates.floors)
    return Inputs(candidates, np.zeros((questions, 2), np.float32), np.ones(questions, np.int64), [0, 2])


# What they compute


def test_reciprocal_ranks_by_hand():
    # BM25 ranks the second piece first and does not know the last; vectors rank the last first.
    candidates = of_questions([[[2.0, 0.1], [5.0, 0.3], [1.0, 0.2], [0.0, 0.9]]])
    wanted = [1 / 62 + 1 / 64, 1 / 61 + 1 / 62, 1 / 63 + 1 / 63, 1 / 61]
    assert rivals.RRF.scores(candidates, TWO) == pytest.approx(wanted)
    assert rivals.ReciprocalRanks(constant=0).scores(candidates, TWO)[3] == pytest.approx(1)


def test_pieces_of_a_chunk_share_its_rank_and_the_next_chunk_follows_it():
    candidates = of_questions([[[7.0], [7.0], [7.0], [3.0], [3.0], [1.0]]])
    wanted = [1 / 61] * 3 + [1 / 62] * 2 + [1 / 63]
    assert rivals.RRF.scores(candidates, ("bm25-3",)) == pytest.approx(wanted)


def test_ranks_begin_again_with_every_question():
    candidates = of_questions([[[4.0], [9.0]], [[9.0], [8.0]], [[8.0], [8.0]]])
    assert rivals.RRF.scores(candidates, ("bm25-1",)) == pytest.approx([1 / 62, 1 / 61, 1 / 61, 1 / 62, 1 / 61, 1 / 61])


def test_umg_by_hand():
    scores = np.array([[0.0, 3.0], [1.0, 4.0], [0.5, 5.0]])
    candidates = of_questions(scores[None])
    wanted = np.zeros(3)
    for own in ([0, 1, 0.5], [0, 0.5, 1]):
        chance = np.exp(np.array(own) / 0.1)
        chance /= chance.sum()
        wanted += chance * (1 + (chance * np.log(chance)).sum() / np.log(3))
    assert rivals.UMG.scores(candidates, TWO) == pytest.approx(wanted)


def test_umg_trusts_the_expert_that_prefers_one_candidate_over_one_that_prefers_none():
    scores = np.zeros((1, 9, 2))
    scores[0, :, 0] = [0, 0, 0, 0, 0, 0, 0, 0, 1]
    scores[0, :, 1] = 7
    weights = rivals.UMG.weights(of_questions(scores), TWO)
    assert weights[0].tolist() == [pytest.approx(1, abs=0.01), pytest.approx(0, abs=1e-6)]
    scores[0, :, 1] = np.linspace(0, 1, 9)
    between = rivals.UMG.weights(of_questions(scores), TWO)[0, 1]
    assert 0.1 < between < 0.9


@pytest.mark.parametrize("rival", BOTH)
def test_only_retrievers_at_levels_count_and_parts_add_up_to_scores(rival):
    candidates = random_questions()
    rows = np.arange(len(candidates.question))
    parts = rival.parts(candidates, EXPERTS, rows)
    assert parts.sum(axis=1) == pytest.approx(rival.scores(candidates, EXPERTS))
    named = [i for i, name in enumerate(EXPERTS) if name in ("title", "mention")]
    assert not parts[:, named].any() and not rival.weights(candidates, EXPERTS)[:, named].any()
    assert rival.parts(candidates, EXPERTS, rows[5:9]) == pytest.approx(parts[5:9])
    changed = candidates.scores.copy()
    changed[:, named] = 0
    assert rival.scores(of_questions(changed.reshape(6, 20, -1)), EXPERTS) == pytest.approx(parts.sum(axis=1))


@pytest.mark.parametrize("rival", BOTH)
def test_a_question_gets_the_same_scores_alone_and_among_others(rival):
    candidates = random_questions()
    together = rival.scores(candidates, EXPERTS).reshape(6, 20)
    for number in range(6):
        alone = candidates.of(np.array([number]))
        np.testing.assert_array_equal(rival.scores(alone, EXPERTS), together[number])
        np.testing.assert_array_equal(rival.weights(alone, EXPERTS)[0], rival.weights(candidates, EXPERTS)[number])


@pytest.mark.parametrize("rival", BOTH)
@pytest.mark.parametrize("n", [0, 1])
def test_questions_with_one_candidate_or_none_are_ranked(rival, n):
    scores = rival.scores(of_questions(np.ones((1, n, 6))), EXPERTS)
    assert scores.shape == (n,) and np.isfinite(scores).all()


# How they are shown


def known_item():
    """Four documents of one piece; the last alone has the word, and vectors prefer the first."""
    return of_questions([[[0.0, 0.9], [1.0, 0.8], [0.5, 0.7], [9.0, 0.0]]], pieces=1)


@pytest.mark.parametrize("rival", BOTH)
def test_known_items_do_not_come_first_and_are_not_said_to(rival):
    candidates = known_item()
    assert np.isfinite(latest(candidates, np.zeros(4)))[3]
    told = reasons(Rules(rival, TWO), asked_of(candidates), np.zeros(4), np.array([3]), TWO, TWO)
    assert KNOWN not in told[0] and "bm25 level 1 (1st of 4)" in told[0]
    assert KNOWN in reasons(Rules(Blend(), TWO), asked_of(candidates), np.zeros(4), np.array([3]), TWO, TWO)[0]
    assert Blend(vectors=50.0).scores(candidates, TWO).argmax() == 3
    assert rivals.RRF.scores(candidates, TWO).argmax() == 1


def test_reasons_are_in_the_order_of_what_experts_give():
    candidates = of_questions([[[2.0, 0.9], [3.0, 0.8], [4.0, 0.7]]])
    told = reasons(Rules(rivals.RRF, TWO), asked_of(candidates), np.zeros(4), np.array([0, 2]), TWO, TWO)
    assert told == [
        "dense level 1 (1st of 3), bm25 level 1 (3rd of 3)",
        "bm25 level 1 (1st of 3), dense level 1 (3rd of 3)",
    ]


def test_they_are_compared_only_where_methods_names_them():
    settings = Settings.model_validate({"corpora": {"c": {"path": "x"}}})
    assert {"rrf", "umg"} <= set(rankings())
    assert not {"rrf", "umg"} & {method.name for method in named_methods(settings)}
    named = settings.model_copy(update={"methods": ["fused", "umg", "rrf"]})
    assert {"rrf", "umg"} <= {method.name for method in named_methods(named)}
