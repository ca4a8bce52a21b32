"""Answers while they are written: what is given early is the beginning of what comes in the end."""

import json

import pytest
from chat_server import ChatServer, Reply, dropped, extra_input, malformed
from hypothesis import given
from hypothesis import strategies as st

from mog_assets.answer.replies import AnswerText, text_answer
from mog_assets.resources.chat import LlmSettings, RequestFailed
from mog_assets.resources.llm import OpenAIModel

MESSAGES = [{"role": "system", "content": "You answer."}, {"role": "user", "content": "Why?"}]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


def cut(text, places):
    """A text in pieces."""
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(TEXTS, st.text(), st.booleans(), st.lists(st.integers(0, 300)))
def test_pieces_of_an_answer_are_together_the_answer(answer, thinking, ascii_only, places):
    raw = json.dumps({"step_by_step_thinking": thinking, "answer": answer}, ensure_ascii=ascii_only)
    written = AnswerText()
    assert "".join(map(written.feed, cut(raw, places))) == answer.strip()


def test_what_only_quotes_the_key_is_no_answer():
    written = AnswerText()
    raw = json.dumps({"step_by_step_thinking": 'It says {"answer": "no"}.', "answer": "yes"})
    assert "".join(map(written.feed, raw)) == "yes" == text_answer(raw)
    assert AnswerText().feed("There is no object here.") == ""


@pytest.mark.parametrize(
    "reasoning",
    [
        '<think>Maybe {"answer": "draft"}?</think>',
        'Okay, so {"answer": "draft"}, I think. No.\n</think>\n\n',
        '[THINK]First {"answer": "draft"}[/THINK]',
        '<think>a</think> <reasoning>{"answer": "draft"}</reasoning>```json\n',
        '<|channel|>analysis<|message|>{"answer": "draft"}<|end|><|start|>assistant<|channel|>final<|message|>',
        "```json\n",
    ],
)
def test_a_draft_in_the_reasoning_is_not_shown_as_the_answer(reasoning):
    written, raw = AnswerText(), reasoning + '{"step_by_step_thinking": "So.", "answer": "yes, <b>it</b> is"}'
    pieces = list(map(written.feed, raw))
    assert "".join(pieces) == "yes, <b>it</b> is" and len(list(filter(None, pieces))) > 3


def test_reasoning_that_does_not_end_shows_nothing():
    for raw in ('Perhaps {"answer": "draft"}', '<think>a</think><think>{"answer": "b"}'):
        assert not "".join(map(AnswerText().feed, raw)), raw


def model_of(server, monkeypatch, **settings):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "loopback")
    return OpenAIModel(LlmSettings(model="m", **settings))


def heard_of(model):
    pieces = []
    completion = model.complete(MESSAGES, heard=pieces.append)
    assert "".join(pieces) == completion.text
    return pieces, completion


def test_an_answer_in_pieces_is_that_in_one_with_its_tokens(monkeypatch):
    with ChatServer(lambda messages: "Because of the frost, in März.") as server:
        server.strict = True
        pieces, completion = heard_of(model_of(server, monkeypatch))
        assert pieces and server.calls[-1].body["stream"] is True
        whole = model_of(server, monkeypatch).complete(MESSAGES)
        same = ("text", "tokens_in", "tokens_out", "finish_reason")
        assert all(getattr(completion, name) == getattr(whole, name) for name in same)
        assert "stream" not in server.calls[-1].body


def test_an_endpoint_that_sends_no_pieces_is_heard_at_once(monkeypatch):
    with ChatServer(lambda messages: "Because of the frost.") as server:
        server.streams = False
        assert heard_of(model_of(server, monkeypatch))[0] == ["Because of the frost."]
        # One that does not know the parameter is asked without it, now and later.
        server.refuses = {"stream_options": extra_input("stream_options")}
        model = model_of(server, monkeypatch)
        assert heard_of(model)[0] == ["Because of the frost."]
        server.calls.clear()
        model.complete([*MESSAGES[:1], {"role": "user", "content": "And then?"}], heard=lambda piece: None)
        assert [call.body.get("stream") for call in server.calls] == [None]


def test_an_answer_from_the_cache_is_heard_too(monkeypatch, tmp_path):
    with ChatServer(lambda messages: "Because of the frost.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "loopback")
        model = OpenAIModel(LlmSettings(model="m"), cache=tmp_path)
        model.complete(MESSAGES)
        assert heard_of(model)[0] == ["Because of the frost."] and len(server.calls) == 1


def test_what_breaks_off_is_not_asked_for_again_after_its_first_piece(monkeypatch):
    with ChatServer(lambda messages: "Because of the frost, which comes in October.") as server:
        server.script([dropped("Because of the frost, which comes in October, as the almanac says.")])
        pieces = []
        with pytest.raises(RequestFailed, match="broke off after it had begun"):
            model_of(server, monkeypatch).complete(MESSAGES, heard=pieces.append)
        assert "".join(pieces).startswith("Because") and len(server.calls) == 1
        # Nor if the endpoint tells an error in place of the rest.
        begun = b'data: {"choices": [{"delta": {"content": "Because"}}]}\n\ndata: {"error": {"message": "out"}}\n\n'
        events = Reply(begun + b"data: [DONE]\n\n", headers={"Content-Type": "text/event-stream"})
        server.script([lambda messages: events])
        server.calls.clear()
        with pytest.raises(RequestFailed, match="broke off after it had begun"):
            model_of(server, monkeypatch).complete(MESSAGES, heard=pieces.append)
        assert len(server.calls) == 1
        # Before it, it is asked for again.
        server.script([malformed(b"data: {")])
        assert heard_of(model_of(server, monkeypatch, attempts=3))[1].text.startswith("Because")
        told = Reply(b'data: {"error": {"message": "out"}}\n\n', headers={"Content-Type": "text/event-stream"})
        server.script([lambda messages: told])
        assert heard_of(model_of(server, monkeypatch, attempts=3))[1].text.startswith("Because")


def test_pieces_of_another_form_break_the_answer_off(monkeypatch):
    body = b'data: {"choices": [{"delta": {"content": "Because", "refusal": {"why": 1}}}]}\n\ndata: [DONE]\n\n'
    with ChatServer() as server:
        server.script([lambda messages: Reply(body, headers={"Content-Type": "text/event-stream"})])
        with pytest.raises(RequestFailed, match="did not answer"):
            model_of(server, monkeypatch, attempts=1).complete(MESSAGES, heard=lambda piece: None)


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("error", [ValueError("closed"), UnicodeEncodeError("ascii", "é", 0, 1, "not in range")])
def test_an_error_of_who_hears_an_answer_is_not_taken_for_the_models(monkeypatch, streams, error):
    def hear(piece):
        raise error

    with ChatServer(lambda messages: "Because of the frost.") as server:
        server.streams = streams
        with pytest.raises(type(error)) as raised:
            model_of(server, monkeypatch).complete(MESSAGES, heard=hear)
        assert raised.value is error and len(server.calls) == 1
