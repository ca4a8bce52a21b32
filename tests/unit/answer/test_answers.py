"""Answers: every question answered by the declared reader, marked, resumed without paying twice; and `mog ask`."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from chat_server import ChatServer
from click.testing import CliRunner
from shared import ROOT

from mog_assets import cli, config
from mog_assets.answer.notation import combination, controls
from mog_assets.answer.rows import read_answers
from mog_assets.build import plan
from mog_assets.build.tools import Tools
from mog_assets.config import settings_model
from mog_assets.evaluate.answers import COLUMNS, mark, score_answers
from mog_assets.questions.marks import exact_match, f1, normalised
from mog_assets.questions.sets import Question, load_questions
from mog_assets.resources.chat import LlmSettings
from mog_assets.resources.errors import ConfigError

pytestmark = pytest.mark.full

SETTINGS = settings_model().model_validate({"corpora": {"c": {"path": "x"}}})
QUESTION = "What makes the bottom of my tomatoes go dark and sunken?"


# Notation


@pytest.mark.parts("briefcontext", "adaptive", "rag")
@pytest.mark.parametrize(
    ("name", "canonical", "way", "retrieval"),
    [
        ("cot", "cot", "cot", None),
        ("one-step", "auto → one-step", "one-step", "auto"),
        ("briefcontext", "auto → briefcontext", "briefcontext", "auto"),
        ("fixed-2+topics → adaptive", "fixed-2+topics → adaptive", "adaptive", "fixed-2+topics"),
        ("mix -> one-step", "mix → one-step", "one-step", "mix"),
        ("dense-2→one-step", "dense-2 → one-step", "one-step", "dense-2"),
        ("medrag → at-rag", "fixed-2 → at-rag", "at-rag", "fixed-2"),
    ],
)
def test_a_combination_by_any_of_its_names(name, canonical, way, retrieval):
    found = combination(name, SETTINGS)
    assert (found.name, found.way, found.retrieval and found.retrieval.name) == (canonical, way, retrieval)
    assert combination(canonical, SETTINGS) == found


@pytest.mark.parts("oracle-paper")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "expected one of cot, one-step"),
        ("mog-paper → ", "expected one of cot, one-step"),
        ("mog-paper → cot", "`cot` without a retrieval"),
        ("oracle-paper → one-step", "without gold evidence"),
        ("fixed-9 → one-step", "method: expected one of auto, .*, fixed-1..5, "),
        ("mog-paper → one-step → cot", "expected one of cot"),
    ],
)
def test_a_combination_that_means_nothing_is_refused_with_what_is_known(name, message):
    with pytest.raises(ConfigError, match=message):
        combination(name, SETTINGS)


# Marks


@pytest.mark.parametrize(
    ("said", "gold", "exact", "words"),
    [
        ("The fourth truss.", ["fourth truss"], 1, 1),
        ("fourth", ["fourth truss"], 0, 2 / 3),
        ("Stanley Hall", ["G. Stanley Hall", "Stanley Hall"], 1, 1),
        ("an apple a day", ["pear"], 0, 0),
        ("the", ["a"], 1, 1),
        ("", ["pear"], 0, 0),
        # Words count as often as they stand on both sides, and the best of several gold answers counts.
        ("new york new", ["new york"], 0, 0.8),
        ("cat sat", ["dog", "cat", "cat sat down"], 0, 0.8),
        ("cat", [], 0, 0),
    ],
)
def test_open_answers_are_marked_as_squad_does(said, gold, exact, words):
    assert exact_match(said, gold) == exact
    assert f1(said, gold) == pytest.approx(words)


def test_answers_are_normalised_in_the_order_of_the_published_script():
    """Lower case, then punctuation (ASCII only, not replaced by spaces), then articles as words, then white space."""
    cases = {
        "The  U.S.A.": "usa",
        "a-b": "ab",
        "an apple-pie": "applepie",
        "A. B. C.": "b c",
        "$1,000.50": "100050",
        "theatre": "theatre",
        "the.theory": "thetheory",
        "\u201cthe\u201d caf\u00e9\u2014bar": "\u201c \u201d caf\u00e9\u2014bar",
        " a\tpear\n": "pear",
        "The": "",
    }
    assert {text: normalised(text) for text in cases} == cases


def rows_of(answers, method="cot"):
    """Answers by (question, answer or None, raw output if it is another) as the asset holds them."""
    base = {"question_set": "s", "method": method, "reader": "r", "rounds": 1, "calls": 1, "tokens_in": 5}
    base |= {"tokens_out": 1, "token_unit": "words", "cost": 0.0}
    return pd.DataFrame(
        [
            {**base, "question": q, "answer": a, "failure": "" if a is not None else "no verdict"}
            | {"raw": raw[0] if raw else a or ""}
            for q, a, *raw in answers
        ]
    )


def test_an_answer_that_is_missing_counts_as_wrong_and_lowers_the_coverage():
    questions = {
        "s": [
            Question("1", "?", "choice", "test", answer="B", options={"A": "x", "B": "y"}),
            Question("2", "?", "choice", "test", answer="A", options={"A": "x", "B": "y"}),
            Question("3", "?", "open", "test", answer="fourth truss"),
        ]
    }
    marks = mark(rows_of([("1", "B"), ("2", None), ("3", "the fourth")]), questions)
    assert marks["exact match"].tolist() == [1, 0, 0]
    assert marks["F1"].tolist() == pytest.approx([1, 0, 2 / 3])
    (exact, words) = score_answers(marks, 0).to_dict("records")
    assert (exact["value"], exact["n"], exact["coverage"]) == (pytest.approx(1 / 3), 3, pytest.approx(2 / 3))
    assert words["value"] == pytest.approx(5 / 9)


def choices(count, answer="B", letters="ABCD"):
    options = {letter: f"text {letter}" for letter in letters}
    return [Question(str(i), "?", "choice", "test", answer=answer, options=options) for i in range(count)]


def test_ways_of_answering_are_compared_with_none():
    questions = {"s": choices(40)}
    said = {"cot": "C" * 20 + "B" * 20, "good": "C" * 2 + "B" * 38, "same": "C" * 20 + "B" * 20}
    answers = pd.concat([rows_of(list(zip(map(str, range(40)), text, strict=True)), m) for m, text in said.items()])
    scores = score_answers(mark(answers, questions), 0)
    assert list(scores.columns) == list(COLUMNS)
    strict = scores[scores["measure"] == "exact match"].set_index("method")
    good = strict.loc["good"]
    assert good["difference"] == pytest.approx(18 / 40)
    assert good["difference_low"] < 18 / 40 < good["difference_high"] and good["p_vs_cot"] < 0.001
    gain = np.array([1.0] * 18 + [0.0] * 22)
    assert good["effect"] == pytest.approx(gain.mean() / gain.std(ddof=1))
    assert 0 < good["detectable"] < good["difference"]
    assert (strict.loc["same", "difference"], strict.loc["same", "p_vs_cot"]) == (0, 1)
    names = ["difference", "difference_low", "difference_high", "effect", "p_vs_cot", "detectable"]
    assert strict.loc["cot", names].isna().all()


def test_another_tokenizer_makes_answers_anew(copied_project):
    def declared(**llm):
        settings = copied_project.settings.model_copy(update={"llm": LlmSettings(**llm), "budget": "300 tokens"})
        return plan.graph(settings)["answers"].settings(Tools(settings))

    assert declared() == declared() != declared(tokenizer="tiktoken:cl100k_base")


# Assets


def stored_answers(project):
    store = Tools(project.settings).store
    artefact = store.read("answers")
    return read_answers(artefact.path, artefact.names()), artefact


@pytest.mark.whole
def test_every_test_question_is_answered_in_every_way_by_the_declared_reader(sample_project):
    answers, artefact = stored_answers(sample_project)
    settings = sample_project.settings
    stored = Tools(settings).store.read("questions").path("samples.parquet")
    asked = {q.id for q in load_questions(stored, ["dev"]) if q.answer}
    names = {combination(text, settings).name for text in settings.answering.methods}
    names |= {how.name for how in controls(settings)}
    assert {"gold → one-step", "random → one-step"} <= names
    (answered,) = {frozenset(part["question"]) for _, part in answers.groupby("method")}
    assert set(answers["method"]) == names
    assert len(answered) == settings.answering.questions and answered < asked
    assert not answers.duplicated(["question", "method"]).any()
    (reader,) = set(answers["reader"])
    assert reader.startswith("extractive-") and reader == artefact.shown()["reader"]
    assert ((answers["answer"].isna()) == (answers["failure"] != "")).all() and answers["answer"].notna().any()
    rounds = answers[answers["method"].str.endswith("at-rag")]
    assert rounds["rounds"].between(1, 5).all() and (rounds["graded"].notna() | rounds["answer"].isna()).all()


def test_scores_of_answers_are_the_means_of_their_marks(sample_project):
    store = Tools(sample_project.settings).store
    artefact = store.read("answer_scores")
    scores = pd.read_parquet(artefact.path("scores.parquet"))
    marks = pd.read_parquet(artefact.path("per_question.parquet"))
    for row in scores.to_dict("records"):
        own = marks[marks["method"] == row["method"]]
        assert row["value"] == pytest.approx(own[row["measure"]].mean())
        assert row["low"] <= row["value"] <= row["high"] and row["n"] == len(own)
        assert np.isnan(row["p_vs_cot"]) == (row["method"] in ("cot", "gold → one-step", "random → one-step"))
    assert any("data:image/png" in text for text in artefact.shown().values())


def test_gold_and_random_passages_are_answered_from_and_land_at_the_ends(sample_project):
    answers, _ = stored_answers(sample_project)
    store = Tools(sample_project.settings).store
    stored = store.read("questions").path("samples.parquet")
    known = {q.id: q for q in load_questions(stored, ["dev"])}
    gold = answers[answers["method"] == "gold → one-step"]
    for question, passages in zip(gold["question"], map(json.loads, gold["passages"]), strict=True):
        spans = {tuple(span) for passage in passages for span in passage["spans"]}
        assert {(corpus, doc) for corpus, doc, *_ in spans} == {(e.corpus, e.doc) for e in known[question].evidence}
        for e in known[question].evidence:
            assert any(s[:2] == (e.corpus, e.doc) and s[2] <= e.start and e.end <= s[3] for s in spans)
    drawn = answers[answers["method"] == "random → one-step"]["passages"].map(json.loads)
    assert set(drawn.map(len)) == {5}
    scores = pd.read_parquet(store.read("answer_scores").path("scores.parquet"))
    means = scores[scores["measure"] == "F1"].set_index("method")["value"]
    assert means.idxmax() == "gold → one-step"
    # Without passages the embedded reader has no answer at all.
    assert means.drop("cot").idxmin() == "random → one-step"


# Asking


def asked(project, *arguments):
    return CliRunner().invoke(cli.main, ["ask", *arguments, "--config", str(project.config)])


def test_a_reader_that_knows_nothing_by_itself_says_so(sample_project):
    result = asked(sample_project, QUESTION, "--method", "cot", "--json")
    assert result.exit_code == 1 and "no answer" in result.stderr
    assert json.loads(result.stdout)["answer"] is None


@pytest.mark.whole
@pytest.mark.parametrize(
    ("method", "reader"),
    [("mog-paper -> one-step", "extractive"), ("dense-2 -> briefcontext", "extractive")]
    + [("at-rag", "neural"), ("hop-1 -> adaptive", "neural")],
)
def test_ask_tells_what_the_answer_rests_on(sample_project, method, reader):
    project = SimpleNamespace(config=sample_project.neural if reader == "neural" else sample_project.config)
    result = asked(project, QUESTION, "--method", method, "--json")
    told = json.loads(result.stdout)
    # An answer that is probably wrong is not shown.
    assert result.exit_code == (told["answer"] is None), result.output
    assert told["method"] == combination(method, sample_project.settings).name
    assert told["details"]["raw"] and told["reader"].startswith(f"{reader}-")
    assert bool(told["passages"]) == (told["details"]["route"] != "none")
    assert all(p["text"] and p["spans"] for p in told["passages"])
    assert (told["weights"] is not None) == ("mog-paper" in method)
    shown = asked(project, QUESTION, "--method", method)
    assert shown.exit_code == result.exit_code and told["method"] in shown.stdout
    assert (told["answer"] or "") in shown.stdout


@pytest.mark.whole
def test_ask_chooses_among_options(sample_project):
    options = ["--option", "A=a shortage of calcium", "--option", "B=too much moonlight"]
    told = json.loads(asked(sample_project, QUESTION, "--method", "mog-paper → one-step", *options, "--json").stdout)
    assert told["answer"] in ("A", "B")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([" "], "question: expected a question"),
        ([QUESTION, "--method", "gold → one-step"], "without gold evidence"),
        ([QUESTION, "--option", "A"], "--option: expected LETTER=TEXT"),
    ],
)
def test_bad_use_of_ask_names_what_was_expected(sample_project, arguments, message):
    result = asked(sample_project, *arguments)
    assert result.exit_code == 2 and message in result.stderr


# A model behind an endpoint


def replies(messages):
    text = " ".join(message["content"] for message in messages)
    return json.dumps({"verdict": "useful" if "useful" in text else "supported", "answer": "blossom end rot"})


@pytest.fixture
def project_of_model(copied_project):
    """The sample project with answers of a model in two ways."""
    values = yaml.safe_load(copied_project.config.read_text(encoding="utf-8"))
    values["answering"] = {"reader": "openai", "methods": ["cot", "one-step"]}
    values["llm"] = {"model": "double", "concurrency": 1, "price_in": 1.0, "price_out": 1.0}
    copied_project.config.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    copied_project.settings = config.load(copied_project.config)
    return copied_project


def run_answers(project, server):
    environment = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "key"}
    command = [sys.executable, "-m", "mog_assets.cli", "run", "--select", "answers", "--json"]
    command += ["--config", str(project.config)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True, **pipes)


@pytest.mark.full
def test_a_run_that_is_killed_while_it_answers_asks_nothing_twice(project_of_model):
    with ChatServer(replies) as server:
        killed, process = threading.Event(), None

        def kill(call):
            # The fourth question has been answered and its answer kept; the fifth is being asked.
            if len(server.calls) == 5 and not killed.is_set():
                killed.set()
                os.killpg(process.pid, signal.SIGKILL)
                # Its end of the line is closed when it is gone.
                while process.poll() is None:
                    time.sleep(0.01)

        server.on_call = kill
        process = run_answers(project_of_model, server)
        process.communicate()
        assert killed.is_set() and process.returncode == -signal.SIGKILL
        again = run_answers(project_of_model, server)
        _, complaint = again.communicate()
        assert again.returncode == 0, complaint
        answers, artefact = stored_answers(project_of_model)
        assert set(answers["answer"]) == {"blossom end rot"} and set(answers["failure"]) == {""}
        assert (answers["reader"].str.startswith("double ")).all()
        delivered = [json.dumps(call.body["messages"]) for call in server.calls if call.delivered]
        assert len(delivered) == len(set(delivered)) == len(answers)
        assert artefact.manifest.counts["calls"] + artefact.manifest.counts["calls from the cache"] == len(answers)
        assert artefact.manifest.counts["calls from the cache"] == 4
