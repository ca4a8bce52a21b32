"""Near copies of questions: the same words but for inflection, order and words of no content."""

import pytest

from mog_assets.plugins.generated_questions.likeness import near_copies, repetitions

COPIES = [
    ("What is the capital of France?", "what's the capital of  FRANCE"),
    ("How deep should garlic cloves be planted?", "How deep should I plant garlic cloves?"),
    ("How deep should garlic cloves be planted?", "How deep should cloves of garlic be planted?"),
    ("Wie viele Eier legt die Kröte?", "Wie viele Eier legt eine Kröte"),
    ("ｗｉｄｅ letters in 2024", "wide letters in 2024"),
    ("?", "?"),
]
DIFFERENT = [
    ("What is the capital of France?", "What is the capital of Spain?"),
    ("Who wrote Hamlet?", "When was Hamlet written?"),
    ("What is GM1 gangliosidosis type 1?", "What is GM1 gangliosidosis type 2?"),
    ("In what sector are jobs beginning to decrease?", "In what sector are jobs beginning to increase?"),
    ("Who is the chair of the IPCC?", "Who is the vice-chair of the IPCC?"),
    ("What grows?", ""),
]
OTHERS = [f"Where does river number {i} of the valley {'rise' if i % 2 else 'end'}?" for i in range(40)]


@pytest.mark.parametrize("others", [[], OTHERS], ids=["alone", "among others"])
@pytest.mark.parametrize(("one", "other"), COPIES)
def test_copies_are_found_in_both_directions(one, other, others):
    assert near_copies([one], [other, *others]) == [True]
    assert near_copies([other], [*others, one]) == [True]
    assert repetitions([one, *others, other]) == [False] * (len(others) + 1) + [True]


@pytest.mark.parametrize("others", [[], OTHERS], ids=["alone", "among others"])
@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_questions_with_other_words_of_content_are_no_copies(one, other, others):
    assert near_copies([one], [other, *others]) == [False]
    assert near_copies([other], [one, *others]) == [False]
    assert not any(repetitions([one, *others, other]))


def test_of_several_copies_the_first_stays():
    texts = ["What do otters eat?", "Where do otters live?", "what does an otter eat", "What do otters eat"]
    assert repetitions(texts) == [False, False, True, True]
    assert near_copies([], texts) == [] and near_copies(texts, []) == [False] * 4 and repetitions([]) == []
