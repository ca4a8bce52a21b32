"""Answers that are probably wrong are withheld at every door, with the sentence that most likely has them."""

import json

import pytest
from shared import called
from starlette.testclient import TestClient

import mog_assets
from mog_assets.answer.neural import MARKED
from mog_assets.serve.http import app
from mog_assets.serve.limits import ServerOptions

DOCUMENTS = [
    ("Bustard", "The great bustard is a heavy bird. It was reintroduced to Salisbury Plain in 2004. It eats seeds."),
    ("Committing", "The option is off by default.\n$ git commit -m message\nBy default, 87 lines are shown."),
    ("Emacs", "The command C capitalize-word changes the case of a word. 𝒳 is a letter. It has been there for long."),
    ("Otter", "The otter eats fish. It sleeps by day."),
]
KNOWN = "When was the great bustard reintroduced to Salisbury Plain?"
UNKNOWN = ["What is the capital of France?", "How many people live in Tokyo?", "What does the otter cost?"]
WAY = "fused → one-step"


@pytest.fixture(scope="module")
def birds(tmp_path_factory, make_project, write_documents, materialise_project):
    """A project without questions."""
    folder = tmp_path_factory.mktemp("birds")
    write_documents(folder / "birds.jsonl", DOCUMENTS)
    values = {
        "corpora": {"birds": {"path": "birds.jsonl"}},
        "levels": 1,
        "ranking": {"experts": []},
        "encoder": {"device": "cpu"},
    }
    made = make_project(folder, {**values, "methods": ["fused"], "answering": {"methods": [WAY], "reader": "neural"}})
    needed = ["documents", "chunks/level_1", "tokens", "bm25/level_1", "embeddings/level_1", "statistics"]
    needed += ["neighbours", "corpus_registry", "method"]
    assert materialise_project(made.settings, select=needed).failures == []
    return made


@pytest.fixture(scope="module")
def opened(birds):
    with mog_assets.open(birds.config, refresh=None) as project:
        yield project


def test_an_answer_that_is_probably_right_is_given_with_the_place_where_it_stands(opened):
    told = opened.ask(KNOWN)
    assert "2004" in told.answer and told.failure == "" and 0.5 < told.probability <= 1
    best, text = told.likeliest, opened.document("birds", "Bustard").text
    assert text[best.answer_start : best.answer_end] == told.answer
    assert text[best.start : best.end] == best.sentence == "It was reintroduced to Salisbury Plain in 2004."


@pytest.mark.parametrize("question", UNKNOWN)
def test_an_answer_that_is_probably_wrong_is_withheld(opened, question):
    steps = []
    told = opened.ask(question, on_event=lambda name, what: steps.append((name, what)))
    assert told.answer is None and told.failure
    assert [what["text"] for name, what in steps if name == "answer"] == [None]
    assert told.probability < 0.5 and told.failure == "nothing in the passages is certain enough"
    # A sentence is marked only if it is likely enough to be worth a look.
    assert (told.likeliest is not None) == (told.probability >= MARKED)
    if told.likeliest:
        text = opened.document(told.likeliest.corpus, told.likeliest.document).text
        assert text[told.likeliest.start : told.likeliest.end] == told.likeliest.sentence


@pytest.fixture(scope="module")
def withheld(opened):
    """A question with an answer that is withheld."""
    told = next(told for told in map(opened.ask, ["What is not shown?", *UNKNOWN]) if told.likeliest)
    assert told.answer is None and told.probability >= MARKED
    return told


def test_http_gives_no_answer_and_the_likeliest_sentence(opened, withheld):
    with TestClient(app(opened, ServerOptions()), base_url="http://localhost") as client:
        told = client.post("/v1/ask", json={"question": withheld.question}).json()
        assert told["answer"] is None and told["failure"] == withheld.failure
        assert told["probability"] == withheld.probability and told["likeliest"] == withheld.likeliest.to_json()
        assert told["likeliest"]["sentence"] and isinstance(told["likeliest"]["answer_start"], int)
        shown = client.post("/v1/ask", json={"question": KNOWN}).json()
        assert "2004" in shown["answer"] and shown["likeliest"]["document"] == "Bustard"


@pytest.mark.whole
def test_agents_get_no_answer_and_the_likeliest_sentence(opened, withheld):
    with TestClient(app(opened, ServerOptions()), base_url="http://localhost") as client:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        request["params"] = {"name": "ask", "arguments": {"question": withheld.question}}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        agent = client.post("/mcp", json=request, headers=headers).json()["result"]["structuredContent"]
    best = withheld.likeliest
    assert agent["answer"] is None and agent["probability"] == withheld.probability
    assert agent["likeliest"]["text"] == best.sentence
    assert agent["likeliest"]["id"] == f"{best.corpus}/{best.document}#{best.start}-{best.end}"


def test_the_command_marks_the_likeliest_sentence(birds, withheld):
    arguments = ["ask", withheld.question, "--config", str(birds.config)]
    result = called(*arguments)
    assert result.exit_code == 1 and f"no answer: {withheld.failure}" in result.stderr
    assert "most relevant sentence is in" in result.stdout and f">>> {withheld.likeliest.sentence} <<<" in result.stdout
    told = json.loads(called(*arguments, "--json").stdout)
    assert told["answer"] is None and told["likeliest"] == withheld.likeliest.to_json()
