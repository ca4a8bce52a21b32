"""Known items: what is typed exactly, and few texts have, is found by every ranking."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from candidate_rows import EXPERTS, candidates_of, layout_of, of_questions

from mog_assets.index.postings import Postings, Terms
from mog_assets.index.term_counts import TermCounts
from mog_assets.index.term_tables import TermTable, write_table
from mog_assets.search import mix
from mog_assets.search.answer_places import Places
from mog_assets.search.candidates import Inputs, ordered
from mog_assets.search.definitions import HEADED
from mog_assets.search.exact import FEW, LITERAL, MOST, OTHER, SOLE, boosted, find_typed, latest, rare_words
from mog_assets.search.features import COMPONENTS, Components
from mog_assets.search.index import Query
from mog_assets.search.models import Mix

MANY = 30


def asked(words, rare, documents=None, title=0):
    """Candidates of one question, given BM25 scores of level 1, `rare`, the document of each, and `title`."""
    n = len(words)
    documents = list(range(n)) if documents is None else list(documents)
    place = np.zeros((n, 4), np.int32)
    place[:, 0] = [row - documents.index(document) for row, document in enumerate(documents)]
    return candidates_of(np.zeros(n), range(n), words, place, rare=rare, title=title)


def by_score(found, scores):
    return ordered(found, boosted(found, np.asarray(scores, float))).tolist()


def test_pieces_with_a_word_that_only_one_document_has_come_first():
    rare, words, best = np.zeros(MANY, int), np.ones(MANY), -np.arange(MANY)
    rare[[20, 21]], words[21] = SOLE, 2
    found = asked(words, rare, [*range(20), 20, 20, *range(21, MANY - 1)])
    assert by_score(found, best) == [21, 20, *range(20), *range(22, MANY)]


def test_pieces_with_rare_words_of_several_documents_come_between_the_others():
    rare, words, best = np.zeros(MANY, int), np.ones(MANY), -np.arange(MANY)
    rare[[10, 20, 25]], words[25] = [OTHER, SOLE, SOLE], 2
    assert by_score(asked(words, rare), best)[:11] == [0, 1, 25, 2, 3, 4, 20, 5, 6, 7, 10]
    # One that stands before that place stays.
    rare[[10, 20, 25]] = [0, 0, OTHER]
    rare[0] = OTHER
    assert by_score(asked(words, rare), best)[:7] == [0, 1, 25, 2, 3, 4, 5]
    # Not more than some, however many have one.
    rare[:] = OTHER
    assert np.isfinite(latest(asked(words, rare), np.zeros(MANY))).sum() == MOST


def test_where_few_pieces_have_any_word_of_the_question_these_come_first_as_bm25_has_them():
    words = np.zeros(MANY)
    words[[5, 9, 12]] = [1, 3, 2]
    best = np.arange(MANY)
    assert by_score(asked(words, np.zeros(MANY)), best)[:4] == [9, 12, 5, MANY - 1]
    # A rare word in some of them does not put these behind.
    assert by_score(asked(words, OTHER * np.eye(MANY, dtype=int)[9]), best)[:4] == [9, 12, 5, MANY - 1]
    words[: FEW + 1] = 1
    assert by_score(asked(words, np.zeros(MANY)), best) == best[::-1].tolist()


def test_a_ranking_without_known_items_keeps_its_scores_and_one_with_them_gives_them_to_others():
    found, scores = asked(np.ones(MANY), np.zeros(MANY)), np.random.default_rng(0).random(MANY)
    np.testing.assert_array_equal(boosted(found, scores), scores)
    moved = asked(np.ones(MANY), SOLE * np.eye(MANY, dtype=int)[7])
    np.testing.assert_allclose(np.sort(boosted(moved, scores)), np.sort(scores), atol=1e-9)


def test_pieces_that_have_the_whole_question_come_first_and_no_other_piece_between_them():
    rare = np.zeros(MANY, int)
    rare[[7, 9, 25]], rare[3] = LITERAL, SOLE
    best = -np.arange(MANY)
    words = np.ones(MANY)
    words[25] = 2
    order = by_score(asked(words, rare), best)
    # By their words, then by their place.
    assert order[:3] == [25, 7, 9] and order[3:5] == [0, 1]


def test_of_pieces_that_have_the_whole_question_those_that_define_it_come_first():
    rare, words = np.zeros(MANY, int), np.ones(MANY)
    rare[[7, 9, 25, 28]] = [LITERAL, LITERAL - 1, HEADED, HEADED]
    words[[7, 28]] = 9, 5
    assert by_score(asked(words, rare), -np.arange(MANY))[:5] == [28, 25, 9, 7, 0]


def test_in_a_long_question_of_a_small_collection_no_word_is_rare_and_in_a_large_one_none_comes_first(tmp_path):
    words = ["sole", "handy", "one", "two", "three"]
    columns = {"sole": [0], "handy": [0, 1], "one": range(90), "two": range(90), "three": range(90)}
    small, large = (postings(columns, count, tmp_path / str(count)) for count in (400, 4000))
    assert rare(words, small) == {} and rare(words, large) == {"sole": OTHER, "handy": OTHER}
    assert rare(words[:4], small) == {"sole": SOLE, "handy": OTHER}


def test_the_best_piece_of_a_document_whose_title_is_in_the_question_comes_first():
    title, best = np.zeros(MANY, int), -np.arange(MANY)
    title[[20, 21]] = 2
    documents = [*range(20), 20, 20, *range(21, MANY - 1)]
    found = asked(np.ones(MANY), np.zeros(MANY), documents, title)
    assert by_score(found, best) == [20, *range(20), *range(21, MANY)]
    assert by_score(found, -best)[:2] == [21, MANY - 1]
    # Of two titles that with more words; of two with as many none.
    title[5] = 3
    assert by_score(asked(np.ones(MANY), np.zeros(MANY), documents, title), best)[0] == 5
    title[20:22] = 3
    assert by_score(asked(np.ones(MANY), np.zeros(MANY), documents, title), best) == list(range(MANY))


def postings(columns, texts, folder):
    """Postings of texts, given those that have each term."""
    folder.mkdir()
    columns = dict(sorted(columns.items()))
    write_table(list(columns), {}, folder / "terms")
    counts = TermCounts(
        TermTable(folder / "terms"),
        np.cumsum([0, *(len(own) for own in columns.values())]),
        np.concatenate([list(own) for own in columns.values()]),
        np.ones(sum(map(len, columns.values())), np.int64),
        np.ones(texts, np.int64),
    )
    return Postings([counts], Terms([counts.terms]))


def rare(words, of):
    matches = of.matches(words)
    return {matches.terms[place]: value for place, value in rare_words(matches)}


def typed_in(question, words, titles):
    """What of a question without quotes, of which no corpus is read, stands exactly in texts."""
    query = Query("", question, None, 1.0)
    return find_typed(None, query, words.matches(question), titles.matches(question), None)


def test_rare_words_are_those_of_few_pieces_and_no_n_grams(tmp_path):
    pieces = postings({"common": range(9), "handy": [1, 4], "sole": [4], "機械": [2]}, 9, tmp_path / "words")
    titles = postings({"other": [0]}, 9, tmp_path / "titles")
    assert rare(["handy", "sole", "機械", "new"], pieces) == {"handy": OTHER, "sole": SOLE}
    typed = typed_in(["common", "handy", "sole", "new"], pieces, titles)
    assert typed.pieces.tolist() == [1, 4] and typed.values.tolist() == [OTHER, SOLE]
    assert typed.values_of(np.arange(6)).tolist() == [0, OTHER, 0, 0, SOLE, 0]
    allowed = np.arange(9) > 2
    assert typed.restricted_to(allowed).tolist() == [4] and typed.restricted_to(None).tolist() == [1, 4]


def test_a_document_of_the_name_begins_with_its_definition_only_if_none_of_its_pieces_defines_it(tmp_path):
    texts = {
        0: ("RowReader.ts", "import rows from 'rows';\n\nexport class RowReader {\n"),
        1: ("RowReader", "The reader of rows.\n\nA RowReader is made of a path, and gives rows.\n"),
        2: (
            "other.ts",
            "import RowReader; RowReader, RowReader.\n\n  const rows = new RowReader(path);\n",
        ),
    }
    cuts = [text.index("\n\n") + 2 for _, text in texts.values()]
    layout = layout_of([[cut, len(texts[i][1]) - cut] for i, cut in enumerate(cuts)])
    layout = replace(layout, documents=["src/RowReader.ts", "pages/a.html", "other.ts"])
    words = postings({"rowread": range(6)}, 6, tmp_path / "words")
    corpora = SimpleNamespace(layout=layout, texts=lambda documents: {i: texts[i] for i in documents})
    query = Query("RowReader", ["rowread"], None, 1.0, is_literal=True)
    found = find_typed(corpora, query, words.matches([]), words.matches([]), np.array([0, 1, 1, 1, 5, 5.0]))
    assert dict(zip(found.pieces.tolist(), found.values.tolist(), strict=True)) == {
        1: HEADED,
        2: HEADED,
        3: LITERAL,
        4: LITERAL,
        5: LITERAL,
    }


@pytest.mark.parametrize(
    ("question", "documents", "words"),
    [
        # A title of one word is in too many questions by chance.
        (["red", "kite", "owl"], [0], [2]),
        (["kite", "large", "red", "red"], [0, 1], [2, 3]),
        (["blue"], [], []),
    ],
)
def test_documents_are_named_by_titles_of_two_words_that_the_question_has_whole(tmp_path, question, documents, words):
    titles = postings({"red": [0, 1, 3], "kite": [0, 1], "large": [1], "owl": [2]}, 4, tmp_path / "titles")
    typed = typed_in(question, titles, titles)
    assert typed.documents.tolist() == documents and typed.words.tolist() == words


def trained_mix(inputs):
    """Trees that learned to put the last candidate last."""
    places = Places(inputs.vectors, np.zeros(1, int), np.zeros(2, int), np.zeros((0, 3), int), np.zeros(0))
    found = Mix(None, Components(np.zeros(2), np.zeros((2, COMPONENTS))), places)
    wanted, options = np.arange(MANY)[::-1], {"min_data_in_leaf": 1, "min_data_in_bin": 1, "verbose": -1}
    booster = mix.lightgbm().train(options, mix.lightgbm().Dataset(found.features(inputs), wanted), 5)
    return replace(found, booster=booster), lambda: mix.scores(booster, found.features(inputs))


def trained_router(inputs):
    from mog_assets.papers.mix_of_granularity import mog
    from mog_assets.papers.mix_of_granularity.ranking import Router

    random, experts = np.random.default_rng(0), len(EXPERTS)
    sizes = {"layer0.weight": (4, 2), "layer0.bias": 4, "layer1.weight": (experts, 4), "layer1.bias": experts}
    router = Router({name: random.normal(size=size).astype(np.float32) for name, size in sizes.items()})
    return router, lambda: mog.scores(inputs.candidates, router.weights(inputs))


@pytest.mark.parametrize("trained", [trained_mix, pytest.param(trained_router, marks=pytest.mark.whole)])
def test_a_trained_ranking_puts_a_known_item_first_whatever_it_learned(trained):
    # BM25 of level 1 has it from one document alone, and every other expert has it last.
    scores = np.repeat(np.linspace(1, 0, MANY)[None, :, None], len(EXPERTS), axis=2)
    scores[..., 0] = np.eye(MANY)[-1]
    candidates = of_questions(scores)
    candidates.rare[-1] = SOLE
    inputs = Inputs(candidates, np.array([[1, 0]], np.float32), np.ones(1, int), [0, 2])
    ranking, plain = trained(inputs)
    assert ranking.scores(inputs).argmax() == MANY - 1 != plain().argmax()
