"""Follow-ups of a conversation, without a model."""

import pytest

from mog_assets.plugins.frameworks.conversation import around, refers_back, standalone

ONIONS = "When should onions stop being watered?"


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("How deep are they planted?", "en"),
        ("What about leeks?", "en"),
        ("Wie tief wird er gesetzt?", "de"),
        ("Quelle est leur couleur ?", "fr"),
        ("¿Cuál es su tamaño?", "es"),
        ("それはどこにありますか", "ja"),
    ],
)
def test_a_question_that_names_its_subject_by_a_word_only_refers_back(question, language):
    assert refers_back(question, language)


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Why do onions rot?", "en"),
        ("How long can clubroot survive in a plot, and what can be done about it?", "en"),
        ("Gibt es in der Stadt ein Museum?", "de"),
        ("Сколько она весит?", "ru"),
        ("?", "en"),
    ],
)
def test_a_question_that_names_its_subject_does_not(question, language):
    assert not refers_back(question, language)


def test_a_follow_up_stands_twice_around_the_words_of_the_last_question_that_stands_alone():
    earlier = ["Where do leeks grow?", ONIONS, "Why do they rot?", "And in winter?"]
    kept = "How are they kept?"
    assert standalone(kept, earlier) == f"{kept} onions stop watered {kept}"
    assert standalone("What is a monsoon?", earlier) == "What is a monsoon?"
    assert standalone(kept, ["And leeks?"]) == f"{kept} leeks {kept}"
    assert standalone(kept, []) == kept


@pytest.mark.parametrize(
    ("language", "subject", "words"),
    [
        ("en", 'Is "AT&T" the maker of C++, or of git --amend?', "AT&T maker C++ git --amend"),
        ("zh", "月球离地球有多远？", "月球离地球有多远"),
        ("en", "Is it there?", ""),
    ],
)
def test_words_between_are_those_that_say_something_as_they_are_written(language, subject, words):
    assert around("Why?", subject, language) == " ".join(["Why?", *words.split(), "Why?"])
