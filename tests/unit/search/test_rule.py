"""What experts weigh by rule, and what an encoder knows of the words of texts."""

from collections import Counter

import numpy as np
import pytest
from candidate_rows import EXPERTS, of_questions

from mog_assets.index.analysis import known_share
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.search.rule import Rule
from mog_assets.text.terms import terms_of

GERMAN = (
    "Die Zwiebel gehört zur Familie der Lauchgewächse und wird aus Samen oder Steckzwiebeln gezogen. Im Frühjahr "
    "werden die Steckzwiebeln in Reihen gesetzt, mit der Spitze nach oben. Wenn das Laub vergilbt, sind die "
    "Zwiebeln reif und können geerntet werden. Man trocknet sie einige "
    "Wochen an einem luftigen Ort, bevor man sie einlagert."
)
ENGLISH = (
    "The onion belongs to the lily family and is grown from seed or from sets. In spring the sets are planted in rows, "
    "with the point up. When the leaves turn yellow the onions are ripe and can be lifted. They are dried for "
    "some weeks in an open place before they are stored."
)


@pytest.fixture(scope="module")
def encoder():
    return Encoder(EncoderSettings())


def weights(candidates, **rule):
    return dict(zip(EXPERTS, Rule(**rule).weights(candidates, EXPERTS)[0].tolist(), strict=True))


ALIKE = np.repeat(np.linspace(0, 1, 9)[None, :, None], len(EXPERTS), axis=2)


def test_vectors_count_less_than_bm25_where_the_encoder_does_not_know_the_words():
    known, unknown = weights(of_questions(ALIKE)), weights(of_questions(ALIKE, vocabulary=0.45))
    assert known["dense-1"] == pytest.approx(2 * known["bm25-1"])
    assert unknown["dense-1"] == pytest.approx(unknown["bm25-1"] / 2)
    less, none = (weights(of_questions(ALIKE, vocabulary=share))["dense-1"] for share in (0.2, 0.0))
    assert 0 == none < less < unknown["dense-1"]
    between = weights(of_questions(ALIKE, vocabulary=0.5))
    assert unknown["dense-1"] < between["dense-1"] < known["dense-1"]


def test_coarse_levels_count_more_in_short_documents_and_fine_ones_in_long_documents():
    short, even, long = (weights(of_questions(ALIKE, pieces)) for pieces in (4, 32, 400))
    assert short["bm25-2"] > short["bm25-1"] and short["dense-2"] > short["dense-1"]
    assert even["bm25-2"] == pytest.approx(even["bm25-1"])
    assert long["bm25-2"] < long["bm25-1"] and long["dense-2"] < long["dense-1"]


def test_an_expert_whose_best_stands_out_counts_more_than_one_that_tells_nothing_apart():
    scores = ALIKE.copy()
    scores[0, :, 0] = [0, 0, 0, 0, 0, 0, 0, 0, 1]
    scores[0, :, 1] = 7
    found = weights(of_questions(scores))
    assert found["bm25-1"] > found["dense-1"] / 2 > found["bm25-2"]
    assert weights(of_questions(scores), confidence=0)["bm25-1"] == pytest.approx(1)
    assert found["title"] == found["mention"] == 0


def test_confidence_is_that_of_the_formula_and_0_without_candidates():
    own = np.array([0.0, 2.0, 3.0, 10.0])
    scores = np.repeat(own[None, :, None], len(EXPERTS), axis=2)
    relative = own / 10
    chances = np.exp(relative / 0.1) / np.exp(relative / 0.1).sum()
    entropy = -(chances * np.log(chances)).sum() / np.log(4)
    wanted = (1 - relative.mean()) / relative.std() * (1 - entropy)
    assert of_questions(scores).confidence[0] == pytest.approx(wanted)
    assert (of_questions(np.ones((1, 4, 6))).confidence == 0).all()
    assert (of_questions(np.zeros((1, 0, 6))).confidence == 0).all()


def test_a_question_gets_the_same_weights_alone_and_among_others():
    scores = np.random.default_rng(0).random((20, 30, len(EXPERTS)))
    together = Rule().weights(of_questions(scores), EXPERTS)
    alone = [Rule().weights(of_questions(own[None]), EXPERTS)[0] for own in scores]
    np.testing.assert_array_equal(together, np.stack(alone))


def test_the_share_of_known_terms_tells_english_from_german(encoder):
    def share(text):
        (terms,) = terms_of([text])
        counts = Counter(terms).most_common()
        return known_share([term for term, _ in counts], np.array([n for _, n in counts]), encoder.model.is_token)

    assert share(ENGLISH) > 0.55
    assert share(GERMAN) < 0.45
    # Nothing says that the encoder does not know them.
    assert share("12 345 678") == 1
