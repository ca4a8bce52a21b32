"""Words that no document has, and questions that are one name in code."""

from collections import Counter

import numpy as np
import pytest

from mog_assets.index.analysis import Analysed, Vocabulary, analysed
from mog_assets.index.postings import Terms
from mog_assets.index.statistics import Together
from mog_assets.index.term_tables import TermTable, write_table
from mog_assets.text.terms import terms_of, words_in


@pytest.fixture
def vocabulary(tmp_path):
    """What stored tables have of a text."""

    def made(text, language="en"):
        mappings = []
        for name, words in (("terms", terms_of([text], language)[0]), ("words", words_in(text))):
            times = Counter(words)
            path = tmp_path / f"{name}{len(list(tmp_path.iterdir()))}"
            write_table(sorted(times), {"occurrences": np.array([times[w] for w in sorted(times)], np.int64)}, path)
            mappings.append(Together(Terms([TermTable(path)]), "occurrences"))
        return Vocabulary(mappings[0], text, mappings[1])

    return made


ENGLISH = "SQLite says that the database is locked. Locked, licked: --rebase-merges."


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
def test_a_word_that_no_document_has_is_taken_for_the_nearest_that_some_have(vocabulary, question, terms, taken):
    assert analysed(question, "en", vocabulary(ENGLISH)) == Analysed(terms, taken)


@pytest.mark.parametrize(
    ("language", "text", "typed", "meant"),
    [
        ("en", "Postgres keeps rows.", "postgers", "postgres"),
        # "closes" is in no document, though a form of it is in most.
        ("en", "Two cloves. Close it, closed, closing, close.", "clowes", "cloves"),
        # Another form is better than none, and is one that a document has.
        ("en", "Configurations of hosts", "configuratoin", "configurations"),
        ("de", "Die Datenbanksysteme", "datenbnk", "datenbank"),
        ("ru", "Где корова?", "кирова", "корова"),
    ],
)
def test_a_word_is_taken_for_a_whole_word_of_the_documents(vocabulary, language, text, typed, meant):
    assert analysed(typed, language, vocabulary(text, language)).taken == {typed: meant}


def test_a_word_that_a_document_of_another_language_has_is_not_misspelt(vocabulary):
    assert analysed("wer sieht reiher", "de", vocabulary("reiher and reihers", "en")).taken == {}


def test_a_question_that_is_one_option_is_searched_for_as_it_stands(vocabulary):
    known = vocabulary(ENGLISH)
    assert analysed(" --rebase-merges ", "en", known) == Analysed(["--rebase-merges"], is_literal=True)
    assert analysed("std::vector", "en", vocabulary("std::vector, a vector")).is_literal
    assert analysed("read_rows()", "en", vocabulary("read_rows")) == Analysed(["read_row"], is_literal=True)
    # No document has this one: its words may lead to it.
    assert analysed("--rebase-merge", "en", known).terms == ["--rebase-merge", "rebas", "merg"]
    assert not analysed("what does --rebase-merges do", "en", known).is_literal


@pytest.mark.parametrize("typed", ["isHTTPError", "HTTPError", "toJSON", "Array#flatMap", "open()", "Timer()"])
def test_a_name_in_code_is_told_by_capitals_within_it_or_by_parentheses(vocabulary, typed):
    assert analysed(typed, "en", vocabulary(f"It calls {typed} here.")).is_literal
    # Nor is a word of English one.
    assert not analysed("Timer", "en", vocabulary("The Timer ends.")).is_literal
    assert not analysed("NASA", "en", vocabulary("NASA said so.")).is_literal


def test_a_sentence_without_blanks_is_no_name_whatever_numbers_are_in_it(vocabulary):
    japanese = vocabulary("予算は1987年で", "ja")
    analysis = analysed("予算は1987年で", "ja", japanese)
    assert not analysis.is_literal and {"予算", "1987"} <= set(analysis.terms)
    assert analysed("sqlite3_open", "ja", vocabulary("sqlite3_open")).is_literal
