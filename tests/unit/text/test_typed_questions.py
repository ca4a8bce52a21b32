"""Words that no document has, and questions that are one name in code."""

import pytest

from mog_assets.text.questions import Analysed, Vocabulary, analysed

ENGLISH = {"databas": 5, "sqlite": 9, "lock": 3, "lick": 2, "--rebase-merges": 1, "rebas": 7, "merg": 4}


def vocabulary(occurrences):
    return Vocabulary(occurrences, "".join(occurrences))


VOCABULARY = vocabulary({**ENGLISH, "коров": 3})


@pytest.mark.parametrize(
    ("question", "terms", "taken"),
    [
        ("sqlite datbase is locekd", ["sqlite", "databas", "lock"], {"datbase": "database", "locekd": "locked"}),
        ("Databases locked", ["databas", "lock"], {}),
        # The nearest that most texts have.
        ("lycked", ["lock"], {"lycked": "locked"}),
        # A short word, a number, another first letter, two edits.
        ("lcok 5qlite xqlite dtbsae", ["lcok", "5qlite", "xqlite", "dtbsae"], {}),
    ],
)
def test_a_word_that_no_document_has_is_taken_for_the_nearest_that_some_have(question, terms, taken):
    assert analysed(question, "en", VOCABULARY) == Analysed(terms, taken)


def test_a_word_is_corrected_with_the_letters_of_its_language():
    assert analysed("Где кирова?", "ru", VOCABULARY).taken == {"кирова": "корова"}


def test_a_question_that_is_one_option_is_searched_for_as_it_stands():
    assert analysed(" --rebase-merges ", "en", VOCABULARY) == Analysed(["--rebase-merges"], whole=True)
    # No document has this one: its words may lead to it.
    assert analysed("--rebase-merge", "en", VOCABULARY).terms == ["--rebase-merge", "rebas", "merg"]
    assert not analysed("what does --rebase-merges do", "en", VOCABULARY).whole


def test_a_sentence_without_blanks_is_no_name_whatever_numbers_are_in_it():
    japanese = vocabulary({"予算": 2, "1987": 1})
    analysis = analysed("予算は1987年で", "ja", japanese)
    assert not analysis.whole and {"予算", "1987"} <= set(analysis.terms)
    assert analysed("sqlite3_open", "ja", vocabulary({"sqlite3_open": 1})).whole
