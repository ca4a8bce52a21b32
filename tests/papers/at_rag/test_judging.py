"""Marks of answers: by a language model, as RAGAS defines them, over the wire; and by rules."""

import json

import pandas as pd
import pytest
import yaml
from chat_server import ChatServer
from readers import CHOICE, Scripted
from shared import called

from mog_assets import config
from mog_assets.answer import assets
from mog_assets.answer.prompted import Prompted
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage, Usage
from mog_assets.answer.rows import AnswerRow, read_answers
from mog_assets.build.tools import Tools
from mog_assets.evaluate.answers import answer_board, mark, score_answers
from mog_assets.papers.at_rag.judging import JUDGE, Judgement, judged, judgement, marks_of, precision
from mog_assets.questions.sets import Question
from mog_assets.resources.chat import LlmSettings, RequestFailed
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.llm import OpenAIModel

QUESTION = AnswerRequest("q", "What lowers blood glucose?")
PASSAGES = [
    RetrievedPassage("med", "d1", "Bones", "Bones hold calcium."),
    RetrievedPassage("med", "d2", "Hormones", "Insulin lowers blood glucose."),
    RetrievedPassage("med", "d3", "Organs", "The pancreas makes insulin."),
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
    row = AnswerRow("q", "one-step", "r", "Insulin.", "", "Insulin.", passages=PASSAGES, usage=Usage(1, 70))
    (marked,) = judged(reader, [QUESTION], [row], {"q": "insulin"}, map)
    assert (marked.usage.calls, marked.usage.tokens_in) == (1, 70)
    assert marked.judgement["calls"] == 6 and marked.judgement["tokens_in"] > 0 and "seconds" not in marked.judgement


@pytest.mark.parametrize(
    ("verdicts_", "expected"),
    [([True], 1), ([False], 0), ([True, False, False], 1), ([False, False, True], 1 / 3), ([True, False, True], 5 / 6)],
)
def test_precision_counts_contributing_passages_by_their_rank(verdicts_, expected):
    assert precision(verdicts_) == pytest.approx(expected)


def test_rules_are_no_judge_of_claims(extractive):
    marks = marks_of(extractive, QUESTION, "Insulin.", "insulin", PASSAGES)
    assert set(marks.values) == {"correctness", "completeness", "relevance", "judge"} and marks.failures == {}


def test_marks_are_averaged_here_and_unparsable_ones_are_a_failure():
    marks = '{"correctness": 4, "completeness": 5.5, "relevance": 10, "overall": 1}'
    assert judgement(marks) == Judgement(4, 5.5, 10)
    assert judgement(marks).overall == 6.5
    wrong = ["{}", "8", '{"correctness": 11, "completeness": 1, "relevance": 1}']
    wrong += [
        f'{{"correctness": {x}, "completeness": 1, "relevance": 1}}' for x in ("true", "NaN", '"8"', "-1", "null")
    ]
    for text in wrong:
        reply = Prompted(Scripted(judge=[text]), "m").play(JUDGE, CHOICE, "A", "A")
        assert reply.value is None
        assert reply.failure.startswith("expected")


def test_marks_rise_with_agreement(extractive):
    asked = AnswerRequest("q", "Which hormone lowers blood glucose?")
    right, wrong = (extractive.play(JUDGE, asked, text, "insulin").value for text in ("insulin", "quartz"))
    assert right.correctness > 9.9 and right.completeness == 10
    assert right.overall > wrong.overall
    assert all(0 <= mark <= 10 for mark in (wrong.correctness, wrong.completeness, wrong.relevance))


def test_a_judge_that_is_not_installed_is_a_fault_of_the_settings(monkeypatch):
    settings = config.settings_model().model_validate({"corpora": {"c": {"path": "x"}}, "answering": {"judge": True}})
    monkeypatch.setattr(assets, "JUDGES", {})
    with pytest.raises(ConfigError, match="answering.judge"):
        assets.recipes(settings)


def rows_of(answers):
    """Answers by question as the asset holds them."""
    base = {"question_set": "s", "method": "cot", "reader": "r", "rounds": 1, "calls": 1, "tokens_in": 5}
    base |= {"tokens_out": 1, "token_unit": "words", "cost": 0.0}
    return pd.DataFrame(
        [
            {**base, "question": q, "answer": a, "failure": "" if a is not None else "no verdict", "raw": a or ""}
            for q, a in answers.items()
        ]
    )


def test_a_judge_that_cannot_be_read_lowers_the_coverage_and_not_the_mean():
    questions = {"s": [Question(str(i), "?", "open", "test", answer="x") for i in range(4)]}
    answers = rows_of({"0": "a", "1": "b", "2": "c", "3": None})
    failed = {"judge": "no marks", "faithfulness": "cut off"}
    judgements = [{"judge": 4.0, "faithfulness": 0.5}, {"failures": failed}, {"judge": 8.0}, None]
    answers["judgement"] = [json.dumps(j) if j else None for j in judgements]
    scores = score_answers(mark(answers, questions), 0).set_index("measure")
    judge = scores.loc["judge"]
    assert (judge["value"], judge["n"], judge["coverage"]) == (6, 3, pytest.approx(2 / 3))
    assert judge["low"] >= 4 and judge["high"] <= 8
    # Of an answer that rests on no passage no faithfulness was asked for.
    faithfulness = scores.loc["faithfulness"]
    assert (faithfulness["value"], faithfulness["n"], faithfulness["coverage"]) == (0.5, 2, 0.5)
    assert "context recall" not in scores.index
    # Where no reply could be read there is no mean.
    answers["judgement"] = json.dumps({"failures": failed})
    (row,) = answer_board(score_answers(mark(answers, questions), 0), "s")
    assert (row["judge"], row["faithfulness"]) == ("none of 0%", "none of 0%")
    answers["judgement"] = [json.dumps(j) if j else None for j in judgements]
    # A way without passages has no faithfulness, and the columns of the others.
    answers["method"], without = "m", answers.copy().assign(method="cot")
    without["judgement"] = json.dumps({"judge": 5.0, "failures": {}})
    board = answer_board(score_answers(mark(pd.concat([without, answers]), questions), 0), "s")
    assert len({tuple(row) for row in board}) == 1 and len(board) == 2
    assert {row["method"]: row["faithfulness"].endswith("of 50%") for row in board} == {"cot": False, "m": True}
    assert scores.loc["exact match", "n"] == 4


@pytest.mark.full
def test_open_answers_are_judged_where_that_is_asked_for(copied_project):
    values = yaml.safe_load(copied_project.config.read_text(encoding="utf-8"))
    values["answering"] = {"methods": ["one-step"], "judge": True, "questions": 3}
    copied_project.config.write_text(yaml.safe_dump(values), encoding="utf-8")
    command = ["run", "--select", "answers", "--select", "answer_scores", "--config", str(copied_project.config)]
    done = called(*command)
    assert done.exit_code == 0, done.stderr
    copied_project.settings = config.load(copied_project.config)
    artefact = Tools(copied_project.settings).store.read("answers")
    answers = read_answers(artefact.path, artefact.names())
    answers = answers[answers["method"] == "auto → one-step"]
    given = [judgement for judgement in map(json.loads, answers["judgement"]) if judgement]
    assert len(answers) == 3 and len(given) == answers["answer"].notna().sum() > 0
    for one in given:
        marks = [one[name] for name in ("correctness", "completeness", "relevance")]
        assert one["judge"] == pytest.approx(sum(marks) / 3) and 0 <= min(marks) <= max(marks) <= 10
        # The embedded reader judges no claims: it would have to guess.
        assert one["failures"] == {} and "faithfulness" not in one
    shown = called("scores", "--answers", "--json", "--config", copied_project.config)
    judged = [row for row in json.loads(shown.stdout) if row["measure"] == "judge"]
    (row,) = [row for row in judged if row["method"] == "auto → one-step"]
    assert (row["n"], row["coverage"]) == (len(given), 1)
