"""Which language a text is in, and a question."""

import pytest

from mog_assets.text.languages import LANGUAGES, detected, of_question
from mog_assets.text.terms import terms_of


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "The heron waits in shallow water until a fish comes near."),
        ("de", "Der Graureiher wartet im seichten Wasser, bis ein Fisch in die Nähe kommt."),
        ("fr", "Le héron attend dans l'eau peu profonde qu'un poisson s'approche."),
        ("ru", "Цапля стоит на мелководье и ждёт, пока не приблизится рыба."),
        ("th", "นกกระสายืนรอปลาอยู่ในน้ำตื้นริมสระ"),
        ("zh", "苍鹭站在池塘边的浅水里,一动不动地等鱼。"),
        ("no", "Hegren venter i det grunne vannet til det kommer en fisk i nærheten."),
        ("", "Otters"),
        ("", "42 / 17"),
        ("", ""),
    ],
)
def test_a_text_has_the_language_that_is_certain_or_none(code, text):
    assert detected(text) == code


def test_a_question_is_in_one_of_the_languages_of_the_documents():
    documents = {"en": 90, "de": 10, "xx": 5}
    assert of_question("Wie viele Punkte gab die Verteidigung ab?", documents) == "de"
    assert of_question("How many points did the defence give up?", documents) == "en"
    # Any language might have the name.
    assert of_question("Berlin", documents) == "en"
    assert of_question("Combien de points?", {"de": 3}) == "de"
    assert of_question("Combien de points?", {"": 3}) == "en"


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_has_terms(code):
    (row,) = terms_of(["alpha beta gamma"], code)
    assert len(row) >= 3
