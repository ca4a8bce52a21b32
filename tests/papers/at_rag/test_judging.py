"""Marks of answers by a judge."""

import json

import pandas as pd
import pytest
import yaml
from readers import CHOICE, Scripted
from shared import called

from mog_assets import config
from mog_assets.answer import assets
from mog_assets.answer.prompted import Prompted
from mog_assets.answer.roles import AnswerRequest, Usage
from mog_assets.answer.rows import AnswerRow, read_answers
from mog_assets.build.tools import Tools
from mog_assets.evaluate.answers import answer_board, mark, score_answers
from mog_assets.papers.at_rag.judging import JUDGE, Judgement, judged, judgement
from mog_assets.questions.sets import Question
from mog_assets.resources.errors import ConfigError

QUESTION = AnswerRequest("q", "What lowers blood glucose?")


def test_the_cost_of_judging_is_not_that_of_answering():
    reader = Prompted(Scripted(judge=['{"correctness": 6, "completeness": 9, "relevance": 9}', "It is fine."]), "m")
    row = AnswerRow("q", "one-step", "r", "Insulin.", "", "Insulin.", usage=Usage(3, 70))
    marked, unread = judged(reader, [QUESTION] * 2, [row] * 2, {"q": "insulin"}, map)
    assert (marked.usage.calls, marked.usage.tokens_in) == (3, 70)
    assert marked.judgement["judge"] == 8 and marked.judgement["failures"] == {}
    assert marked.judgement["calls"] == 1 and marked.judgement["tokens_in"] > 0 and "seconds" not in marked.judgement
    assert "judge" not in unread.judgement and unread.judgement["failures"]["judge"].startswith("expected")


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
    failed = {"failures": {"judge": "no marks"}}
    judgements = [{"judge": 4.0}, failed, {"judge": 8.0}, None]
    answers["judgement"] = [json.dumps(j) if j else None for j in judgements]
    scores = score_answers(mark(answers, questions), 0).set_index("measure")
    judge = scores.loc["judge"]
    assert (judge["value"], judge["n"], judge["coverage"]) == (6, 3, pytest.approx(2 / 3))
    assert judge["low"] >= 4 and judge["high"] <= 8
    assert scores.loc["exact match", "n"] == 4
    # Where no reply could be read there is no mean.
    answers["judgement"] = json.dumps(failed)
    (row,) = answer_board(score_answers(mark(answers, questions), 0), "s")
    assert row["judge"] == "none of 0%"


@pytest.mark.full
def test_open_answers_are_judged_where_that_is_asked_for(copied_project):
    values = yaml.safe_load(copied_project.config.read_text(encoding="utf-8"))
    values["answering"] = {"methods": ["one-step"], "judge": True, "questions": 3}
    copied_project.config.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
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
        assert one["failures"] == {}
    shown = called("scores", "--answers", "--json", "--config", copied_project.config)
    judged = [row for row in json.loads(shown.stdout) if row["measure"] == "judge"]
    (row,) = [row for row in judged if row["method"] == "auto → one-step"]
    assert (row["n"], row["coverage"]) == (len(given), 1)
