"""A model that answers nothing: the asset `answers` and `mog ask` fail with the first error, and nothing is kept."""

import json

import pytest
from chat_server import REASONING, ChatServer, refusal
from shared import called

from mog_assets.answer.assets import read_answers
from mog_assets.resources.store import Store

QUESTIONS = 4


@pytest.fixture(scope="module")
def server():
    with ChatServer(lambda messages: "yeast") as running:
        yield running


@pytest.fixture(scope="module")
def project(tmp_path_factory, make_project, write_documents):
    folder = tmp_path_factory.mktemp("asked")
    write_documents(folder / "notes.jsonl", [("a", "Bread dough rises. Yeast makes gas from sugar.")])
    rows = [
        {"id": f"q{i}", "question": f"What makes gas, number {i}?", "split": "test", "answer": "yeast"}
        for i in range(QUESTIONS)
    ]
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    values = {
        "corpora": {"notes": {"path": "notes.jsonl"}},
        "question_sets": {"q": {"path": "q.jsonl", "corpora": ["notes"], "test": ["test"]}},
        "levels": 1,
        "answering": {"reader": "openai", "methods": ["fixed-1 → one-step"]},
        "llm": {"model": "reasons", "attempts": 1},
    }
    return make_project(folder, values)


def test_answers_fail_where_every_one_failed_and_come_when_the_model_answers(server, project, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    server.script([refusal("No.")] * 100)
    result = called("run", "--select", "+answers", "--config", project.config)
    assert result.exit_code == 1
    assert "answers: expected an answer to at least one question, got none to" in result.stderr
    assert "refused: No." in result.stderr
    assert Store(project.home).find("answers") is None

    result = called("ask", "What makes gas?", "--method", "fixed-1 -> one-step", "--config", project.config)
    assert result.exit_code == 1 and "mog: no answer: llm: reasons refused: No." in result.stderr

    server.unscript()
    server.refuses = REASONING
    result = called("run", "--select", "+answers", "--config", project.config)
    assert result.exit_code == 0, result.output
    stored = Store(project.home).read("answers")
    assert set(read_answers(stored.path, stored.names())["answer"]) == {"yeast"}
    assert stored.manifest.info["parameters"] == {"max_completion_tokens": 1024, "seed": 0}
    assert "temperature is not sent: the model rejects it" in stored.shown()["parameters sent"]
    # What was learned makes nothing stale.
    before = len(server.calls)
    assert "nothing was recomputed" in called("run", "--select", "+answers", "--config", project.config).stdout
    assert len(server.calls) == before
    result = called("ask", "What makes gas?", "--method", "fixed-1 -> one-step", "--config", project.config)
    assert "parameters: max_completion_tokens 1024, seed 0" in result.stdout
