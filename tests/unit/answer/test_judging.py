"""Marks of answers by a language model, as RAGAS defines them, over the wire."""

import json

import pytest
from chat_server import ChatServer

from mog_assets.answer.extractive import Extractive
from mog_assets.answer.judging import Judge, judged, marks_of, precision
from mog_assets.answer.prompted import Prompted
from mog_assets.answer.roles import AnswerRequest, Passage
from mog_assets.answer.rows import AnswerRow
from mog_assets.resources.chat import LlmSettings, RequestFailed
from mog_assets.resources.llm import OpenAIModel

QUESTION = AnswerRequest("q", "What lowers blood glucose?")
PASSAGES = [
    Passage("med", "d1", "Bones", "Bones hold calcium."),
    Passage("med", "d2", "Hormones", "Insulin lowers blood glucose."),
    Passage("med", "d3", "Organs", "The pancreas makes insulin."),
]
CLAIMS = {"Insulin, which is made of cheese.": ["Insulin lowers it.", "Insulin is made of cheese."]}


def verdicts(*values):
    return json.dumps({"verdicts": [{"number": n, "reason": "r", "verdict": v} for n, v in enumerate(values, 1)]})


def model(messages):
    """Says what a careful model would say of the texts of this file."""
    system, user = (m["content"] for m in messages)
    role = system[1 : system.index(" ")]
    if role == "judge":
        return '{"correctness": 6, "completeness": 9, "relevance": 9}'
    if role == "claims":
        return json.dumps({"claims": next((c for a, c in CLAIMS.items() if a in user), ["Insulin lowers it."])})
    if role == "contribution":
        return verdicts(False, True, True)
    return verdicts(True, False) if "cheese" in user else verdicts(True)


@pytest.fixture
def server(monkeypatch):
    with ChatServer(model) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
        running.strict = True
        yield running


@pytest.fixture
def reader(server):
    llm = OpenAIModel(LlmSettings(model="loopback-1", timeout=30))
    return Prompted(llm.complete, "loopback-1", failures=(RequestFailed,))


def test_claims_of_answer_and_reference_are_checked_and_passages_ranked(reader, server):
    marks = marks_of(reader, QUESTION, "Insulin, which is made of cheese.", "insulin", PASSAGES)
    assert marks.values["faithfulness"] == 0.5 and marks.values["context recall"] == 1
    assert marks.values["context precision"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert marks.values["judge"] == 8 and marks.failures == {}
    assert marks.usage.calls == len(server.calls) == 6


def test_what_the_model_does_not_judge_has_no_mark_and_is_counted(reader, server):
    def careless(messages):
        return verdicts(True) if "[contribution" in messages[0]["content"] else "I think it is fine."

    server.answer = careless
    marks = marks_of(reader, QUESTION, "Insulin.", "insulin", PASSAGES)
    assert marks.values == {}
    assert set(marks.failures) == {"judge", "faithfulness", "context precision", "context recall"}
    assert marks.failures["context precision"].startswith(
        "expected verdicts, true or false for each number from 1 to 3"
    )
    assert marks.usage.calls == len(server.calls)


def test_the_cost_of_judging_is_not_that_of_answering(reader):
    passages = [{"corpus": p.corpus, "doc": p.doc, "title": p.title, "text": p.text} for p in PASSAGES]
    row = AnswerRow("q", "one-step", "r", "Insulin.", "", "Insulin.", passages=passages, calls=1, tokens_in=70)
    (marked,) = judged(reader, [QUESTION], [row], {"q": "insulin"}, map)
    assert (marked.calls, marked.tokens_in) == (1, 70)
    assert marked.judgement["calls"] == 6 and marked.judgement["tokens_in"] > 0 and "seconds" not in marked.judgement


def test_an_answer_without_passages_is_asked_for_no_faithfulness(reader, server):
    marks = marks_of(reader, QUESTION, "Insulin.", "insulin", [])
    assert set(marks.values) == {"correctness", "completeness", "relevance", "judge"} and len(server.calls) == 1


@pytest.mark.parametrize(
    ("verdicts_", "expected"),
    [([True], 1), ([False], 0), ([True, False, False], 1), ([False, False, True], 1 / 3), ([True, False, True], 5 / 6)],
)
def test_precision_counts_contributing_passages_by_their_rank(verdicts_, expected):
    assert precision(verdicts_) == pytest.approx(expected)


def test_rules_are_no_judge_of_claims():
    assert issubclass(Prompted, Judge) and not issubclass(Extractive, Judge)
