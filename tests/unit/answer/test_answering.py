"""Readers and ways of answering."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from readers import CHOICE, OPTIONS, PASSAGES, UNSUPPORTED, YES_NO, Library, Scripted, by_words, means

from mog_assets.answer import replies
from mog_assets.answer.answerers import WAYS, Means, cot, one_step
from mog_assets.answer.extractive import Extractive, bm25_scores
from mog_assets.answer.prompted import Prompted, prompts_fingerprint
from mog_assets.answer.replies import Unparsable
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage
from mog_assets.questions.sets import Question
from mog_assets.resources.encoder_settings import EMBEDDED
from mog_assets.resources.errors import MogError


def test_passages_are_ranked_and_read_by_the_words_of_their_language():
    texts = [
        "Der Garten wird im Herbst umgegraben, und die Beete werden mit Laub bedeckt.",
        "Man steckt die Zehen des Knoblauchs drei Zentimeter tief in die Erde.",
        "Kürbisse wachsen auf Haufen aus Kompost.",
    ]
    # Plurals, and parts of a compound.
    assert np.flatnonzero(bm25_scores("Kürbissen", texts)).tolist() == [2]
    assert np.flatnonzero(bm25_scores("Laubhaufen", texts)).tolist() == [0, 2]
    assert np.flatnonzero(bm25_scores("wird auf die", texts)).tolist() == []


def test_chain_of_thought_retrieves_nothing_and_one_step_once():
    model, library = Scripted(), Library()
    assert cot([CHOICE], means(model, library))[0].passages == ()
    assert not library.asked
    assert "Documents:\nnone\n" in model.asked["answer"][0]
    row = one_step([CHOICE], means(model, library), k=2)[0]
    assert library.asked == [([CHOICE.question], 2, "")]
    assert json.loads(json.dumps(row.to_json()))["passages"][1] == {
        "corpus": "med",
        "doc": "d2",
        "title": "Hormones",
        "text": "Glucagon raises blood glucose. Cortisol does so too.",
        "spans": [["med", "d2", 5, 57]],
        "level": 2,
    }
    assert (row.method, row.details.get("graded"), row.token_unit) == ("one-step", None, "tokens")


def test_failure_of_one_question_stops_no_other():
    down = MogError("llm: scripted did not answer")
    model = Scripted(answer=['{"answer_choice": "A"}', down, '{"answer_choice": "C"}'])
    questions = [AnswerRequest(str(i), "Which?", OPTIONS, "choice") for i in range(3)]
    rows = one_step(questions, means(model))
    assert [row.answer for row in rows] == ["A", None, "C"]
    assert rows[1].failure == "answer: llm: scripted did not answer"
    assert (rows[1].usage.calls, rows[1].usage.tokens_in) == (1, 0)


def test_error_that_concerns_every_request_is_raised():
    class Failed(MogError):
        pass

    model = Scripted(answer=[Failed("one"), MogError("the budget is spent")])
    reader = Prompted(model, "scripted", failures=(Failed,))
    assert reader.answer(CHOICE, []).failure == "one"
    with pytest.raises(MogError, match="budget"):
        one_step([CHOICE], Means(reader, Library()))


@pytest.mark.parametrize("method", list(WAYS))
def test_calls_side_by_side_give_the_same_rows(method):
    def each(work, items):
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(work, items))

    questions = [AnswerRequest(str(i), f"Question {i}?", OPTIONS, "choice") for i in range(6)]
    outputs = {"support": [UNSUPPORTED], "classify": ['{"verdict": "iterative"}']}
    one, other = (WAYS[method].answer(questions, means(Scripted(**outputs), **more)) for more in ({}, {"each": each}))
    assert one == other
    assert [row.question for row in one] == [q.id for q in questions]
    assert all(row.answer for row in one)


@pytest.mark.parametrize("method", list(WAYS))
def test_rows_survive_json(method):
    rows = WAYS[method].answer([CHOICE], means(Scripted(support=[UNSUPPORTED, "no json"])))
    assert all(json.loads(json.dumps(row.to_json())) == row.to_json() for row in rows)
    assert rows[0].reader == f"scripted@prompts-{prompts_fingerprint()}"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ('{"step_by_step_thinking": "x", "answer_choice": "B"}', "B"),
        ('```json\n{"answer_choice": "b"}\n```', "B"),
        ('I think {so}. {"answer_choice": "B"} Yes: {"answer_choice": "B"}', "B"),
        ('{"step_by_step_thinking": "long", "answer_choice": "B"', "B"),
        ('{"step_by_step_thinking": "an unescaped " quote", "answer_choice": "B"}', "B"),
        ('{"answer_choice": "B. glucagon"}', "B"),
        ('{"answer_choice": "(B)"}', "B"),
        ('{"answer_choice": "Glucagon"}', "B"),
        ("**B**", "B"),
        ('<think>{"answer_choice": "A"}</think>{"answer_choice": "B"}', "B"),
    ],
)
def test_choice_is_read_through_what_stands_around_it(text, letter):
    assert replies.choice(text, OPTIONS) == letter


@pytest.mark.parametrize(
    "text",
    ["", "I cannot answer that.", '{"answer_choice": "E"}', '{"answer_choice": null}', '{"answer_choice": ["A"]}']
    + ['{"answer_choice": "A"} No: {"answer_choice": "B"}', '{"step_by_step_thinking": "long", "answer_choice": "B']
    + ["A. insulin\nB. glucagon", "B: it is not A", '{"answer_choice": "B. glucagon or C"}']
    + ["A fever is likely", '{"answer_choice": "A or B"}', '{"step_by_step_thinking": "A', "{" * 5000, "A" * 10**7]
    + ['{"a":' * 20000],
)
def test_what_names_no_option_is_no_choice(text):
    with pytest.raises(Unparsable, match="expected"):
        replies.choice(text, OPTIONS)


def test_open_answers_and_queries_are_read():
    assert replies.text_answer('{"answer": " insulin "}') == "insulin"
    assert replies.text_answer("Insulin.") == "Insulin."
    assert replies.text_answer('{"answer": "half \\ud800"}') == "half \N{REPLACEMENT CHARACTER}"
    assert replies.query('{"query": "two\\nlines"}') == "two lines"
    for wrong in ('{"answer": "cut', '{"answer": ""}', '{"answer": 3}', "  "):
        with pytest.raises(Unparsable):
            replies.text_answer(wrong)
    for wrong in ("plain words", '{"query": ""}', json.dumps({"query": "x" * 1001})):
        with pytest.raises(Unparsable):
            replies.query(wrong)


def test_output_that_is_too_long_is_a_failure_and_is_not_kept():
    reply = Prompted(Scripted(answer=["x" * 10**7]), "m").answer(CHOICE, [])
    assert reply.failure.startswith("expected at most 100000 characters, got 10000000; the reply: 'xxx")
    assert len(reply.failure) < 300
    assert len(reply.raw) < 10_000


def test_kind_of_a_question_follows_from_its_options():
    assert AnswerRequest.of(Question("q", "Is it?", "pubmedqa", "test", options=YES_NO)).kind == "yesno"
    assert AnswerRequest.of(Question("q", "Is it?", "yesno", "train", answer="yes")).options["no"] == "no"
    assert AnswerRequest.of(Question("q", "Which?", "mmlu", "test", options=OPTIONS)).kind == "choice"
    assert AnswerRequest.of(Question("q", "Why?", "2hop", "test")) == AnswerRequest("q", "Why?")
    with pytest.raises(MogError, match="expected options"):
        AnswerRequest("q", "Which?", {}, "choice")


@pytest.mark.parametrize(
    ("question", "letter"),
    [
        ("Which hormone lowers blood glucose?", "A"),
        ("Which hormone raises blood glucose?", "B"),
        ("Which hormone makes the kidneys keep sodium?", "D"),
    ],
)
def test_best_supported_option_is_chosen(extractive, question, letter):
    reply = extractive.answer(AnswerRequest("q", question, OPTIONS, "choice"), PASSAGES)
    assert (reply.value, reply.raw, reply.failure) == (letter, letter, "")


def test_option_closest_to_the_question_is_chosen_without_passages(extractive):
    asked = AnswerRequest("q", "Which hormone of the thyroid gland?", {"A": "liver", "B": "thyroid hormone"}, "choice")
    assert extractive.answer(asked, []).value == "B"


@pytest.mark.parametrize(
    ("question", "text", "word"),
    [
        ("Does aspirin reduce fever?", "Aspirin significantly reduced fever in children.", "yes"),
        ("Does aspirin reduce fever?", "Aspirin did not reduce fever. Fever was unchanged by aspirin.", "no"),
        ("Is aspirin as safe as ibuprofen?", "There was no difference between aspirin and ibuprofen.", "yes"),
        ("Does aspirin reduce fever?", "", "yes"),
    ],
)
def test_yes_no_follows_the_words_closest_to_the_question(extractive, question, text, word):
    asked = AnswerRequest("q", question, YES_NO, "yesno")
    assert asked.spelled(extractive.answer(asked, [RetrievedPassage("c", "d", "", text)]).value) == word


def test_open_question_is_answered_with_the_best_sentence(extractive):
    asked = AnswerRequest("q", "What makes the kidneys keep sodium?")
    assert extractive.answer(asked, PASSAGES).value == "Aldosterone makes the kidneys keep sodium."
    nothing = extractive.answer(asked, [])
    assert (nothing.value, nothing.failure) == (None, "no sentence to answer from")


def test_every_method_answers_without_a_model_and_the_same_way_twice(embedded):
    questions = [
        CHOICE,
        AnswerRequest("y", "Does insulin lower blood glucose?", YES_NO, "yesno"),
        AnswerRequest("o", "What is insulin?"),
    ]
    for name, way in WAYS.items():
        first, second = (
            way.answer(questions, Means(embedded, Library(), lambda f, xs: [f(x) for x in xs])) for _ in "12"
        )
        for one, other in zip(first, second, strict=True):
            assert one.reader == f"extractive-4@{EMBEDDED}"
            assert (one.usage.cost, one.token_unit) == (0, "words")
            assert {**one.to_json(), "seconds": 0} == {**other.to_json(), "seconds": 0}
        answers = {row.question: row.answer for row in first}
        assert answers["y"] == "A"
        assert (answers["c"] == "A" and answers["o"]) or name == "cot"


def test_long_passages_cost_no_more_encoding_than_short_ones():
    encoded = []

    def encode(texts):
        encoded.append(len(texts))
        return by_words(texts)

    text = " ".join(f"Sentence number {i} speaks of nothing." for i in range(500)) + " Insulin lowers blood glucose."
    assert Extractive(encode, "words").answer(CHOICE, [RetrievedPassage("c", "d", "", text)]).value == "A"
    assert max(encoded) <= 24
