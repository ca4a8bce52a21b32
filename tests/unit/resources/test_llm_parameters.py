"""Models that refuse a parameter get what they take: learned once, remembered, and told apart in the cache."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_client import server  # noqa: F401
from chat_server import REASONING, ChatServer, extra_input, refused_parameter, status

from mog_assets.resources.chat import LlmSettings, RequestFailed
from mog_assets.resources.chat_parameters import FILE
from mog_assets.resources.llm import OpenAIModel


def ask(text):
    return [{"role": "user", "content": text}]


def client(cache=None, seed=7, **values):
    return OpenAIModel(LlmSettings(**{"timeout": 10, "max_tokens": 50, **values}), seed, cache)


def parameters(call):
    return {name: value for name, value in call.body.items() if name not in ("messages", "model")}


def test_a_reasoning_model_is_asked_with_what_it_takes(server, tmp_path):
    server.refuses = REASONING
    llm = client(tmp_path)
    assert llm.complete(ask("herons")).text == "about herons"
    assert parameters(server.calls[-1]) == {"max_completion_tokens": 50, "seed": 7}
    assert llm.parameters.describe() == (
        "max_completion_tokens 50, seed 7, max_tokens is sent as max_completion_tokens: the model rejects it, "
        "temperature is not sent: the model rejects it"
    )
    # A refusal is no attempt that failed, and nothing was waited for.
    assert (llm.tally.calls, llm.tally.retries, llm.tally.failures) == (3, 0, 0)


def test_what_a_model_takes_is_learned_once_for_all_requests_and_runs(server, tmp_path):
    server.refuses = REASONING
    first = client(tmp_path, concurrency=1)
    for i in range(4):
        first.complete(ask(f"topic {i}"))
    assert len(server.calls) == 2 + 4
    client(tmp_path).complete(ask("herons"))
    assert len(server.calls) == 2 + 4 + 1


def test_many_requests_at_once_all_learn_and_none_fails(server, tmp_path):
    server.refuses, server.seconds = REASONING, 0.02
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(client(tmp_path, concurrency=8).complete, [ask(f"topic {i}") for i in range(16)]))
    assert [answer.text for answer in answers] == [f"about topic {i}" for i in range(16)]
    assert set(server.delivered.values()) == {1}


def test_another_model_and_another_endpoint_are_asked_with_everything(server, tmp_path, monkeypatch):
    server.refuses = REASONING
    client(tmp_path, model="reasons").complete(ask("herons"))
    server.refuses = {}
    client(tmp_path, model="speaks").complete(ask("herons"))
    assert parameters(server.calls[-1]) == {"temperature": 0, "max_tokens": 50, "seed": 7}
    with ChatServer() as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        client(tmp_path, model="reasons").complete(ask("herons"))
        assert parameters(other.calls[-1]) == {"temperature": 0, "max_tokens": 50, "seed": 7}


def test_an_answer_without_temperature_is_not_taken_for_one_with_it(server, tmp_path):
    server.refuses = REASONING
    client(tmp_path).complete(ask("herons"))
    assert client(tmp_path).complete(ask("herons")).cached
    # The model takes them now, and what was learned is forgotten.
    server.refuses = {}
    (tmp_path / FILE).unlink()
    again = client(tmp_path).complete(ask("herons"))
    assert not again.cached
    assert parameters(server.calls[-1]) == {"temperature": 0, "max_tokens": 50, "seed": 7}


def test_what_is_null_is_not_sent(server):
    client(temperature=None, max_tokens=None).complete(ask("herons"))
    assert parameters(server.calls[-1]) == {"seed": 7}


def test_an_endpoint_that_takes_neither_name_gets_none(server, tmp_path):
    said = "Unrecognized request argument supplied: max_completion_tokens"
    server.refuses = {
        **REASONING,
        "max_completion_tokens": refused_parameter(None, said, None),
        "seed": extra_input("seed"),
    }
    assert client(tmp_path).complete(ask("herons")).text == "about herons"
    assert parameters(server.calls[-1]) == {}
    assert len(server.calls) == 5


@pytest.mark.parametrize("text", ["{", "[]", '{"x": 3}'])
def test_damage_to_what_was_remembered_is_learned_again(server, tmp_path, text):
    server.refuses = REASONING
    (tmp_path / FILE).write_text(text)
    assert client(tmp_path).complete(ask("herons")).text == "about herons"
    assert len(json.loads((tmp_path / FILE).read_text())) >= 1


@pytest.mark.parametrize(
    ("param", "code", "said"),
    [
        ("max_tokens", "invalid_value", "max_tokens is too large: 99999. This model supports at most 4096."),
        ("max_tokens", "integer_below_min_value", "Invalid 'max_tokens': integer below minimum value."),
        (None, "context_length_exceeded", "This model's maximum context length is 8192 tokens, max_tokens included."),
        ("messages", "unsupported_value", "Unsupported value: 'messages[0].role' does not support 'system'."),
        (None, None, "it is broken"),
    ],
)
def test_other_complaints_are_failures_and_teach_nothing(server, tmp_path, param, code, said):
    server.script([lambda messages: refused_parameter(param, said, code)])
    with pytest.raises(RequestFailed, match="rejected the request"):
        client(tmp_path).complete(ask("herons"))
    assert len(server.calls) == 1 and not (tmp_path / FILE).exists()


def test_a_server_error_between_refusals_is_tried_again(server, tmp_path):
    server.refuses = REASONING
    server.script([status(500)])
    llm = client(tmp_path)
    assert llm.complete(ask("herons")).text == "about herons"
    assert (llm.tally.calls, llm.tally.retries) == (4, 1)
