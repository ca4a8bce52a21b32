"""AT-RAG's loop and roles, and the choice between ways."""

from dataclasses import replace

import pytest
from readers import (
    CHOICE,
    NONE,
    OPTIONS,
    PASSAGES,
    QUOTED,
    REINTRODUCED,
    UNSUPPORTED,
    USELESS,
    YES_NO,
    Library,
    Scripted,
    means,
)

from mog_assets.answer.answerers import Means, RetrievedPassages
from mog_assets.answer.neural import Neural
from mog_assets.answer.reader.model import shipped
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage
from mog_assets.papers.at_rag.answerer import adaptive, at_rag
from mog_assets.papers.at_rag.roles import (
    CLASSIFY,
    GRADE_SUPPORT,
    GRADE_USEFULNESS,
    REWRITE,
    THINK,
)
from mog_assets.papers.briefcontext.roles import EXTRACT, REDUCE
from mog_assets.resources.errors import MogError


def run_at_rag(model, **options):
    return at_rag([CHOICE], means(model, options.pop("library", None)), **options)[0]


def test_answer_that_passes_both_graders_ends_the_loop():
    model, library = Scripted(), Library()
    row = run_at_rag(model, library=library)
    assert (row.answer, row.details.get("graded"), row.rounds, row.usage.calls) == ("A", True, 1, 4)
    assert row.details.get("grades") == [{"usefulness": "useful", "support": "supported"}]
    assert row.queries == [{"query": CHOICE.question, "topic": 3, "label": "hormones", "fallback": False}]
    assert library.asked == [([CHOICE.question], 5, "topics")]
    assert not model.asked["rewrite"]
    assert (row.usage.tokens_in, row.usage.tokens_out, row.usage.cost, row.usage.seconds) == (40, 8, 2.0, 1.0)


def test_answer_that_is_not_useful_is_not_checked_for_support_but_sought_with_another_query():
    model, library = Scripted(usefulness=[USELESS, '{"verdict": "useful"}']), Library()
    row = run_at_rag(model, library=library)
    assert (row.details.get("graded"), row.rounds) == (True, 2)
    assert row.details.get("grades")[0] == {"usefulness": "not_useful", "support": None}
    assert len(model.asked["support"]) == 1
    assert [queries for queries, _, _ in library.asked] == [[CHOICE.question], ["rewritten"]]


def test_useful_answer_without_support_is_sought_again_with_all_thoughts():
    model = Scripted(
        support=[UNSUPPORTED, '{"verdict": "supported"}'],
        think=["first thought", "second thought"],
        answer=['{"answer_choice": "B"}', '{"answer_choice": "A"}'],
    )
    row = run_at_rag(model)
    assert (row.answer, row.details.get("graded"), row.rounds) == ("A", True, 2)
    assert row.details.get("grades")[0] == {"usefulness": "useful", "support": "unsupported"}
    assert "first thought" in model.asked["answer"][1] and "second thought" in model.asked["answer"][1]
    # The answer is always to the original question; only the thought follows the query.
    assert CHOICE.question in model.asked["answer"][1] and "rewritten" not in model.asked["answer"][1]
    assert "rewritten" in model.asked["think"][1]
    assert "B. glucagon" in model.asked["rewrite"][0]


def test_last_answer_stands_ungraded_when_the_rounds_run_out():
    answers = [f'{{"answer_choice": "{letter}"}}' for letter in "ABCDB"]
    model = Scripted(answer=answers, support=[UNSUPPORTED])
    row = run_at_rag(model)
    assert (row.answer, row.details.get("graded"), row.rounds, row.failure) == ("B", False, 5, "")
    assert len(row.details.get("grades")) == len(row.details.get("thoughts")) == len(row.queries) == 5
    assert len(model.asked["rewrite"]) == 4


@pytest.mark.parametrize(
    "malformed",
    ["useful", "Yes!", '{"verdict": "pass"}', '{"verdict": "useful, very"}', '{"verdict": true}', "[]", "{", " "]
    + ['{"verdict": "useful"} {"verdict": "not_useful"}', '{"verdict": ["useful"]}', '{"grade": "useful"}'],
)
def test_malformed_verdict_is_a_counted_failure_and_never_a_pass(malformed):
    row = run_at_rag(Scripted(usefulness=[malformed]), rounds=2)
    assert row.details.get("graded") is False
    assert [grades["usefulness"] for grades in row.details.get("grades")] == ["failed", "failed"]
    assert [(f["role"], f["round"]) for f in row.failures] == [("grade usefulness", 1), ("grade usefulness", 2)]
    assert "expected" in row.failures[0]["reason"]
    row = run_at_rag(Scripted(support=[malformed.replace("useful", "supported")]), rounds=1)
    assert (row.details.get("graded"), row.details.get("grades")[0]["support"]) == (False, "failed")


def test_failed_thought_and_failed_rewriting_leave_what_was_there():
    down = MogError("llm: did not answer")
    model, library = Scripted(think=[down], rewrite=["no json"], support=[UNSUPPORTED]), Library()
    row = run_at_rag(model, library=library, rounds=2)
    assert (row.answer, row.details.get("thoughts")) == ("A", [])
    assert [queries for queries, _, _ in library.asked] == [[CHOICE.question]] * 2
    assert [f["role"] for f in row.failures] == ["think", "rewrite", "think"]
    assert row.usage.calls == 9


def test_answer_that_cannot_be_had_ends_its_question_and_an_earlier_answer_does_not_stand_in():
    row = run_at_rag(Scripted(answer=['{"answer_choice": "B"}', "I cannot help with that."], support=[UNSUPPORTED]))
    assert (row.answer, row.details.get("graded"), row.rounds) == (None, None, 2)
    assert row.failure.startswith("answer: expected answer_choice, one of A, B, C, D")
    assert row.raw == "I cannot help with that."


def test_questions_leave_the_loop_one_by_one():
    model, library = Scripted(usefulness=['{"verdict": "useful"}', USELESS, '{"verdict": "useful"}']), Library()
    other = AnswerRequest("other", "Which hormone raises blood glucose?", OPTIONS, "choice")
    rows = at_rag([CHOICE, other], means(model, library))
    assert [(row.question, row.rounds) for row in rows] == [("c", 1), ("other", 2)]
    assert [len(queries) for queries, _, _ in library.asked] == [2, 1]


def test_classifier_picks_the_way_and_its_call_is_in_the_account():
    routes = ["none", "single", "iterative", "sometimes"]
    model, library = Scripted(classify=[f'{{"verdict": "{route}"}}' for route in routes]), Library()
    questions = [AnswerRequest(str(i), f"Question {i}?", OPTIONS, "choice") for i in range(4)]
    rows = adaptive(questions, means(model, library))
    assert [row.question for row in rows] == ["0", "1", "2", "3"]
    assert [row.details.get("route") for row in rows] == ["none", "single", "iterative", None]
    assert [row.usage.calls for row in rows] == [2, 2, 5, 1]
    assert [len(row.passages) for row in rows] == [0, 3, 3, 0]
    assert {row.method for row in rows} == {"adaptive"}
    assert library.asked == [(["Question 1?"], 5, "topics"), (["Question 2?"], 5, "topics")]
    assert rows[3].answer is None
    assert rows[3].failure.startswith("classify: expected verdict, one of none, single, iterative")


def test_support_and_usefulness_have_verdicts_of_both_kinds(extractive):
    asked = AnswerRequest("q", "Which hormone lowers blood glucose?")
    assert extractive.play(GRADE_USEFULNESS, asked, "The hormone insulin lowers blood glucose.").value == "useful"
    assert extractive.play(GRADE_USEFULNESS, asked, "Quartz scratches steel.").value == "not_useful"
    assert extractive.play(GRADE_SUPPORT, asked, PASSAGES, "Insulin lowers glucose").value == "supported"
    assert extractive.play(GRADE_SUPPORT, asked, PASSAGES, "Thyroxine regulates metabolism").value == "unsupported"
    assert extractive.play(GRADE_SUPPORT, asked, [], "Insulin").value == "unsupported"
    yes_no = AnswerRequest("q", "Does insulin lower blood glucose?", YES_NO, "yesno")
    assert extractive.play(GRADE_SUPPORT, yes_no, PASSAGES, "A").value == "supported"
    assert (
        extractive.play(GRADE_SUPPORT, yes_no, [RetrievedPassage("c", "d", "", "Quartz scratches steel.")], "A").value
        == "unsupported"
    )
    assert extractive.play(GRADE_USEFULNESS, yes_no, "A").value == "useful"


def test_rewriting_adds_the_commonest_new_terms(extractive):
    thoughts = ["Insulin is from the pancreas.", "The pancreas has islets."]
    query = extractive.play(REWRITE, CHOICE, "hormones that lower glucose", "A", thoughts).value
    assert query == "hormones that lower glucose insulin pancreas islets"
    nothing = extractive.play(REWRITE, CHOICE, "insulin", "A", [])
    assert (nothing.value, nothing.failure != "") == (None, True)


@pytest.mark.parametrize(
    ("question", "route"),
    [
        ("Who is it?", "none"),
        ("What lowers blood glucose?", "single"),
        ("Who was the first president of the association which published the journal that Ann edited?", "iterative"),
    ],
)
def test_hops_of_a_question_decide_its_route(extractive, question, route):
    assert extractive.play(CLASSIFY, AnswerRequest("q", question)).value == route


def test_thought_is_the_closest_sentence_that_is_new(extractive):
    first = extractive.play(THINK, CHOICE, CHOICE.question, PASSAGES[:1]).value
    second = extractive.play(THINK, CHOICE, CHOICE.question, PASSAGES[:1], [first]).value
    assert [first, second] == ["Insulin lowers blood glucose.", "It is made by the pancreas."]
    assert extractive.play(THINK, CHOICE, CHOICE.question, PASSAGES[:1], [first, second]).failure


# With the neural reader


def test_what_has_the_answer_is_extracted_and_the_rest_is_not(neural):
    told = neural.play(EXTRACT, REINTRODUCED, QUOTED).value
    assert told.splitlines()[0] == f"Bustard: {QUOTED[0].text[35:]}"
    assert "2004" in neural.play(REDUCE, REINTRODUCED, [told]).value
    nothing = neural.play(EXTRACT, NONE, QUOTED[1:])
    assert nothing.value == "" and nothing.raw == "no relevant information"
    assert neural.play(REDUCE, REINTRODUCED, []).value is None
    span = neural.play(REDUCE, REINTRODUCED, [f"Bustard: {QUOTED[0].text[35:]}"]).span
    assert (span.passage, span.start) == (-1, -1)


def test_thoughts_are_sentences_and_none_comes_twice(neural):
    first = neural.play(THINK, REINTRODUCED, "", QUOTED).value
    assert first == f"Bustard: {QUOTED[0].text[35:]}"
    second = neural.play(THINK, REINTRODUCED, "", QUOTED, [first]).value
    assert second != first
    assert neural.play(THINK, REINTRODUCED, "", QUOTED, [first, second]).value is None


def test_passages_support_what_they_say_and_nothing_else(neural):
    assert neural.play(GRADE_SUPPORT, REINTRODUCED, QUOTED, "2004").value == "supported"
    assert neural.play(GRADE_SUPPORT, REINTRODUCED, QUOTED, "1850").value == "unsupported"
    assert neural.play(GRADE_SUPPORT, REINTRODUCED, QUOTED[1:], "fish").value == "unsupported"


def test_the_loop_goes_on_where_passages_have_no_answer(neural):
    rounds = iter([[QUOTED[1]], [QUOTED[1], QUOTED[0]]])

    def retrieve(queries, k, limit, read=()):
        return [RetrievedPassages(next(rounds)) for _ in queries]

    (row,) = at_rag([REINTRODUCED], Means(neural, retrieve), rounds=2, limit="")
    assert "2004" in row.answer and row.rounds == 2 and row.details.get("graded")


def test_a_later_round_without_an_answer_does_not_lose_an_earlier_one(neural):
    rounds = iter([[QUOTED[0]], [QUOTED[1]]])
    assert neural.answer(REINTRODUCED, QUOTED[1:]).declined

    def retrieve(queries, k, limit, read=()):
        return [RetrievedPassages(next(rounds)) for _ in queries]

    class Doubts(Neural):
        """Supports nothing."""

        def play(self, role, *read):
            reply = super().play(role, *read)
            return replace(reply, value="unsupported") if role is GRADE_SUPPORT else reply

        def answer(self, asked, passages, thoughts=()):
            # Without thoughts: they repeat what the first round read.
            return super().answer(asked, passages)

    reader = Doubts(neural.encode, "e", network=shipped())
    (row,) = at_rag([REINTRODUCED], Means(reader, retrieve), rounds=2, limit="")
    assert "2004" in row.answer and row.failure == "" and row.rounds == 2 and row.details.get("graded") is False
    assert row.details.get("grades") == [
        {"usefulness": "useful", "support": "unsupported"},
        {"usefulness": None, "support": None},
    ]
    # The answer comes with what it was read from.
    assert [passage.text for passage in row.passages] == [QUOTED[0].text]
