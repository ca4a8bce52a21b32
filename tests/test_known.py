"""Known items: what is typed exactly, and few texts have, is found by every ranking."""

import numpy as np
import pytest

from mog_assets.arrays import unpaired
from mog_assets.ranking.candidates import Candidates
from mog_assets.ranking.gold import ordered
from mog_assets.ranking.known import FEW, MOST, RareWords, latest, lifted, rare_words
from mog_assets.retrieval.bm25 import Bm25Index, TermCounts, statistics

MANY = FEW + 6


def asked(words, rare, documents=None):
    """Candidates of one question, given BM25 scores of level 1, `rare`, and the document of each."""
    n = len(words)
    documents = list(range(n)) if documents is None else list(documents)
    place = np.zeros((n, 4), np.int32)
    place[:, 0] = [row - documents.index(document) for row, document in enumerate(documents)]
    return Candidates(
        np.zeros(n, np.int64),
        np.arange(n),
        np.asarray(words, np.float32)[:, None],
        np.zeros((n, 2, 1), np.float32),
        place,
        np.asarray(rare, np.int8),
        np.zeros((1, 1), np.float32),
        np.ones(1, np.float32),
    )


def by_score(found, scores):
    return ordered(found, lifted(found, np.asarray(scores, float))).tolist()


def test_pieces_with_a_word_that_only_one_document_has_come_first():
    rare, words, best = np.zeros(MANY, int), np.ones(MANY), -np.arange(MANY)
    rare[[20, 21]], words[21] = 1, 2
    found = asked(words, rare, [*range(20), 20, 20, *range(21, MANY - 1)])
    assert by_score(found, best) == [21, 20, *range(20), *range(22, MANY)]


def test_pieces_with_rare_words_of_several_documents_come_between_the_others():
    rare, words, best = np.zeros(MANY, int), np.ones(MANY), -np.arange(MANY)
    rare[[10, 20, 25]], words[25] = [2, 1, 1], 2
    assert by_score(asked(words, rare), best)[:11] == [0, 1, 25, 2, 3, 4, 20, 5, 6, 7, 10]
    # One that stands before that place stays.
    rare[[10, 20, 25]] = [0, 0, 2]
    rare[0] = 2
    assert by_score(asked(words, rare), best)[:7] == [0, 1, 25, 2, 3, 4, 5]
    # Not more than some, however many have one.
    rare[:] = 2
    assert np.isfinite(latest(asked(words, rare))).sum() == MOST


def test_where_few_pieces_have_any_word_of_the_question_these_come_first_as_bm25_has_them():
    words = np.zeros(MANY)
    words[[5, 9, 12]] = [1, 3, 2]
    best = np.arange(MANY)
    assert by_score(asked(words, np.zeros(MANY)), best)[:4] == [9, 12, 5, MANY - 1]
    words[: FEW + 1] = 1
    assert by_score(asked(words, np.zeros(MANY)), best) == best[::-1].tolist()


def test_a_ranking_without_known_items_keeps_its_scores_and_one_with_them_gives_them_to_others():
    found, scores = asked(np.ones(MANY), np.zeros(MANY)), np.random.default_rng(0).random(MANY)
    np.testing.assert_array_equal(lifted(found, scores), scores)
    moved = asked(np.ones(MANY), np.eye(MANY, dtype=int)[7])
    np.testing.assert_allclose(np.sort(lifted(moved, scores)), np.sort(scores), atol=1e-9)


def test_equal_scores_do_not_undo_a_place():
    found = asked(np.ones(MANY), np.eye(MANY, dtype=int)[7])
    assert by_score(found, np.zeros(MANY)) == [7, *(row for row in range(MANY) if row != 7)]


@pytest.mark.parametrize("questions", [1, 3])
def test_rare_words_are_those_of_few_pieces_and_no_n_grams(questions):
    terms = ["common", "handy", "sole", "機械"]
    columns = [range(9), [1, 4], [4], [2]]
    counts = TermCounts(
        terms,
        np.cumsum([0, *map(len, columns)]),
        np.concatenate([list(own) for own in columns]),
        np.ones(13, np.int64),
        np.ones(9, np.int64),
    )
    whole = statistics([counts])
    words = ["common", "handy", "sole", "機械", "new"]
    rare = RareWords(Bm25Index(counts, whole, 1.2, 0.75), whole, [words] * questions)
    assert rare_words(words, whole) == {"handy": 2, "sole": 1, "new": 1}
    keys, times = rare.pieces(slice(0, questions))
    question, piece = unpaired(keys)
    assert question.tolist() == np.repeat(np.arange(questions), 2).tolist()
    assert piece.tolist() == [1, 4] * questions and times.tolist() == [2, 1] * questions
