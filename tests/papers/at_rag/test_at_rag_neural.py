"""Thoughts, extractions and grades of the neural reader, and AT-RAG's loop with it."""

from dataclasses import replace

from readers import NONE, QUOTED, REINTRODUCED

from mog_assets.answer.answerers import Means, RetrievedPassages
from mog_assets.answer.neural import Neural
from mog_assets.answer.reader.model import shipped
from mog_assets.papers.at_rag.answerer import at_rag
from mog_assets.papers.at_rag.roles import GRADE_SUPPORT, THINK
from mog_assets.papers.briefcontext.roles import EXTRACT, REDUCE


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
