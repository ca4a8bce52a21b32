"""The client of language models against real servers: one on loopback that misbehaves, and `transformers serve`."""

import importlib.util
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest
from chat_client import KEY, ask, client, server  # noqa: F401
from chat_server import ChatServer, dropped, malformed, refusal, says, sends, status
from shared import ROOT

from mog_assets.resources.chat import Completion, LlmSettings, RequestFailed, SpendCapReached
from mog_assets.resources.errors import ConfigError, MogError

pytestmark = pytest.mark.full


def test_answer_comes_with_tokens_cost_and_parameters(server):
    llm = client(price_in=1_000_000, price_out=2_000_000, temperature=0.5, model="loopback-1", seed=7)
    completion = llm.complete(ask("herons"))
    assert (completion.text, completion.model, completion.finish_reason) == ("about herons", "loopback-1", "stop")
    assert (completion.tokens_in, completion.tokens_out, completion.cached) == (5, 2, False)
    assert completion.cost == 5 + 2 * 2
    assert completion.seconds > 0
    (call,) = server.calls
    assert call.body == {
        "messages": ask("herons"),
        "model": "loopback-1",
        "temperature": 0.5,
        "max_tokens": 50,
        "seed": 7,
    }
    assert (llm.tally.calls, llm.tally.tokens_in, llm.tally.tokens_out, llm.tally.usd) == (1, 5, 2, 9)


def date(seconds):
    """The HTTP date in some seconds."""
    return formatdate(time.time() + seconds, usegmt=True)


PASSING = {
    "429 with Retry-After as a date": lambda messages: status(429, Retry_After=date(1))(messages),
    "429 with a Retry-After that is none": status(429, Retry_After="soon"),
    "408": status(408),
    "409": status(409),
    "503 with Retry-After": status(503, Retry_After="0"),
    "connection dropped within the body": dropped(),
    "no choices": sends(choices=[]),
    "no choices but an error": sends(choices=None, error={"message": "overloaded"}),
    "truncated JSON": malformed(b'{"id": "chatcmpl-1", "choices": [{"index": 0, "mess'),
    "empty body": malformed(b""),
    "JSON of another form": malformed(b'{"choices": [{"text": "an answer of the old protocol"}]}'),
}


@pytest.mark.parametrize("fault", PASSING)
def test_fault_that_passes_is_tried_again(server, tmp_path, fault):
    server.script([PASSING[fault]] * 2)
    llm = client(tmp_path)
    assert llm.complete(ask("herons")).text == "about herons"
    assert (llm.tally.calls, llm.tally.retries, llm.tally.failures) == (3, 2, 0)
    assert len(server.calls) == 3


def test_attempt_that_takes_too_long_is_tried_again(server):
    server.script([lambda messages: replace(says("late")(messages), wait=5)])
    llm = client(timeout=0.3)
    assert llm.complete(ask("herons")).text == "about herons"
    assert llm.tally.retries == 1


def test_answer_that_trickles_ends_with_the_timeout(monkeypatch):
    # Each byte comes well within the timeout of a read; the whole would take minutes.
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    done = threading.Event()

    def trickle(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n")
            try:
                while not done.wait(0.05):
                    connection.sendall(b" ")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        pool.submit(trickle, listener)
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        try:
            with pytest.raises(RequestFailed, match="no complete answer in time"):
                client(timeout=0.5, attempts=1).complete(ask("herons"))
        finally:
            done.set()


def test_attempts_end_and_the_error_says_what_happened_last(server, tmp_path):
    server.script([status(500), status(500), status(503, "no room")])
    llm = client(tmp_path, attempts=3)
    with pytest.raises(RequestFailed, match=r"did not answer \(attempts: 3; .*503.*no room"):
        llm.complete(ask("herons"))
    assert (llm.tally.calls, llm.tally.retries, llm.tally.failures) == (3, 2, 1)
    assert llm.complete(ask("herons")).text == "about herons"


def test_wait_that_is_too_long_is_not_begun(server):
    server.script([status(429, "slow down", Retry_After="3600")])
    with pytest.raises(RequestFailed, match=r"did not answer .*429.*slow down"):
        client().complete(ask("herons"))
    assert len(server.calls) == 1


def test_retry_after_is_waited_for(server, monkeypatch):
    slept = []
    monkeypatch.setattr("openai._base_client.time.sleep", slept.append)
    server.script([status(429, Retry_After="7"), status(429, Retry_After=date(20))])
    client(timeout=60).complete(ask("herons"))
    first, second = slept
    assert first == 7 and 15 <= second <= 20


def test_redirected_request_is_answered(server):
    server.script([status(307, Location=f"{server.url}/chat/completions")])
    assert client().complete(ask("herons")).text == "about herons"


FINAL = {
    400: r"rejected the request .*it is broken",
    401: r"does not accept the key \(401\): set OPENAI_API_KEY",
    402: r"has no credit for OPENAI_API_KEY",
    403: r"does not let OPENAI_API_KEY use 'gpt-4o-mini': choose another llm.model",
    404: r"has no model 'gpt-4o-mini', .*check llm.model and OPENAI_BASE_URL",
    422: r"rejected the request",
}


@pytest.mark.parametrize("code", FINAL)
def test_error_that_does_not_pass_is_not_tried_again_and_names_the_remedy(server, code):
    server.script([status(code)])
    with pytest.raises(MogError, match=FINAL[code]):
        client().complete(ask("herons"))
    assert len(server.calls) == 1


def test_account_without_credit_is_no_rate_limit(server):
    server.script([status(429, "quota", error_code="insufficient_quota")])
    with pytest.raises(MogError, match="has no credit for OPENAI_API_KEY"):
        client().complete(ask("herons"))
    assert len(server.calls) == 1


UNUSABLE = {
    "refusal": (refusal("I cannot\nhelp."), r"refused: I cannot help\."),
    "cut by the filter": (says("The heron is", "content_filter"), "content filter"),
    "no text": (says(None), r"without text \(finish reason 'stop'\)"),
    "all tokens used before the answer": (says("", "length"), "raise llm.max_tokens"),
    "10 MB": (says("word " * 2_000_000), "at most 1800 characters"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_answer_that_cannot_be_used_is_a_failure_and_is_not_kept(server, tmp_path, case):
    behaviour, reason = UNUSABLE[case]
    server.script([behaviour])
    llm = client(tmp_path)
    with pytest.raises(RequestFailed, match=reason):
        llm.complete(ask("herons"))
    assert (llm.tally.calls, llm.tally.failures) == (1, 1)
    assert not llm.complete(ask("herons")).cached


def test_tokens_of_a_refusal_are_counted(server):
    server.script([refusal()])
    llm = client(price_in=1_000_000)
    with pytest.raises(RequestFailed):
        llm.complete(ask("herons"))
    assert (llm.tally.tokens_in, llm.tally.usd) == (5, 5)


def test_answer_is_paid_once_whatever_asks_again(server, tmp_path):
    first = client(tmp_path, price_in=3).complete(ask("herons"))
    again = client(tmp_path, price_in=5, timeout=1, concurrency=1)
    second = again.complete(ask("herons"))
    assert not first.cached and second.cached
    assert {**vars(first), "cached": True} == vars(second)
    assert (again.tally.calls, again.tally.cached, again.tally.usd) == (0, 1, 0)
    assert len(server.calls) == 1


@pytest.mark.parametrize("change", [{"model": "b"}, {"temperature": 1}, {"max_tokens": 51}, {"seed": 1}])
def test_another_model_parameter_or_endpoint_is_another_question(server, tmp_path, monkeypatch, change):
    client(tmp_path, model="a").complete(ask("herons"))
    assert not client(tmp_path, **{"model": "a", **change}).complete(ask("herons")).cached
    assert len(server.calls) == 2
    with ChatServer(lambda messages: "elsewhere") as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        assert client(tmp_path, model="a").complete(ask("herons")).text == "elsewhere"


def test_cached_answer_needs_no_key(server, tmp_path, monkeypatch):
    client(tmp_path).complete(ask("herons"))
    monkeypatch.delenv("OPENAI_API_KEY")
    llm = client(tmp_path)
    assert llm.complete(ask("herons")).text == "about herons"
    with pytest.raises(MogError, match=r"expected OPENAI_API_KEY .* in the environment, got none for http://127"):
        llm.complete(ask("otters"))


def test_limit_holds_over_all_threads(server):
    server.seconds = 0.05
    llm = client(concurrency=2)
    with ThreadPoolExecutor(6) as pool:
        assert len(list(pool.map(llm.complete, [ask(f"topic {i}") for i in range(6)]))) == 6
    assert server.most_at_once == 2


def test_key_is_in_no_error_and_not_in_the_cache(server, tmp_path, caplog):
    server.script([status(code, f"you sent {KEY}") for code in (400, 403, 404, 402)])
    said = []
    for i in range(4):
        with pytest.raises(MogError) as raised:
            client(tmp_path).complete(ask(f"topic {i}"))
        said += traceback.format_exception(raised.value)
    server.script([status(500, f"you sent {KEY}")] * 5)
    with pytest.raises(RequestFailed, match="you sent …") as failure:
        client(tmp_path).complete(ask("otters"))
    client(tmp_path).complete(ask("herons"))
    assert server.calls[-1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in "".join(said) + str(failure.value) + caplog.text
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", "sk-schlüssel"])
def test_key_that_no_header_can_hold_is_said_without_quoting_it(server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(MogError, match="expected OPENAI_API_KEY to be ASCII without white space") as raised:
        client().complete(ask("herons"))
    assert key.strip() not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://[::1", "ftp://host/v1", "http://host:port/v1"])
def test_base_url_that_is_none_is_named(monkeypatch, url):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(MogError, match="expected OPENAI_BASE_URL to be a URL such as"):
        client().complete(ask("herons"))


def test_credentials_in_the_base_url_are_not_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:secret@host:8000/v1/?token=secret")
    assert client().endpoint == "http://host:8000/v1"


def test_endpoint_that_is_not_there_is_named(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(RequestFailed, match=rf"http://127.0.0.1:{port}/v1 did not answer \(.*Connection refused"):
        client(attempts=2).complete(ask("herons"))


def test_attempt_after_the_cap_is_not_made(server):
    # The first attempt is paid for, and gives nothing.
    server.script([sends(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 0})])
    llm = client(budget_usd=5, price_in=1_000_000)
    with pytest.raises(SpendCapReached, match="has spent 5 USD"):
        llm.complete(ask("herons"))
    assert len(server.calls) == 1


def test_cap_on_an_endpoint_that_counts_no_tokens_is_refused(server, tmp_path):
    server.script([sends(choices=[{"message": {"content": "x"}}])])
    llm = client(tmp_path, budget_usd=1, price_in=1)
    with pytest.raises(MogError, match=r"llm.budget_usd: expected an endpoint that reports token usage"):
        llm.complete(ask("herons"))
    assert client(tmp_path).complete(ask("herons")).cached


def test_cap_without_a_price_is_no_configuration(make_project, tmp_path):
    corpora = {"pond": {"path": "pond.jsonl"}}
    with pytest.raises(ConfigError, match=r"llm: expected price_in or price_out above 0 with budget_usd"):
        make_project(tmp_path, {"corpora": corpora, "llm": {"budget_usd": 2}})
    (tmp_path / "mog.yaml").unlink()
    assert make_project(tmp_path, {"corpora": corpora, "llm": {"budget_usd": 2, "price_out": 0.6}}).settings.llm
    assert LlmSettings().budget_usd is None


def test_damaged_cache_is_said_and_left_alone(server, tmp_path):
    file = tmp_path / "llm.sqlite"
    file.write_bytes(b"not a database " * 100)
    with pytest.raises(MogError, match=r"the answer cache .*llm.sqlite cannot be used"):
        client(tmp_path).complete(ask("herons"))
    assert file.read_bytes() == b"not a database " * 100
    assert server.calls == []


LIMITED = """
import resource, sys
from pathlib import Path
from mog_assets.resources.chat import LlmSettings
from mog_assets.resources.errors import MogError
from mog_assets.resources.llm import OpenAIModel

llm = OpenAIModel(LlmSettings(max_tokens=50_000), 0, Path(sys.argv[1]))
llm.complete([{"role": "user", "content": "short"}])
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
try:
    llm.complete([{"role": "user", "content": "long"}])
except MogError as error:
    print(error)
print(llm.complete([{"role": "user", "content": "short"}]).cached)
"""


def test_cache_that_cannot_grow_is_an_error_and_keeps_what_it_holds(server, tmp_path):
    server.answer = lambda messages: "word " * 20_000 if messages[-1]["content"] == "long" else "word"
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    error, last = done.stdout.splitlines()
    assert "no room to write" in error and "llm.sqlite: expected at least 100" in error
    assert last == "True"


CHILD = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from mog_assets.resources.chat import LlmSettings
from mog_assets.resources.llm import OpenAIModel

order = json.loads(sys.argv[1])
settings = LlmSettings(max_tokens=50, concurrency=order["concurrency"])
llm = OpenAIModel(settings, 0, Path(order["cache"]))
requests = [[{"role": "user", "content": f"prompt {i}"}] for i in range(order["prompts"])]
with ThreadPoolExecutor(order["concurrency"]) as pool:
    print(sum(answer.text.startswith("about") for answer in pool.map(llm.complete, requests)))
"""


def answering(cache, prompts, concurrency):
    order = json.dumps({"cache": str(cache), "prompts": prompts, "concurrency": concurrency})
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, order],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def kept(cache):
    with sqlite3.connect(cache / "llm.sqlite") as connection:
        return connection.execute("SELECT COUNT(*) FROM answers").fetchone()[0]


def test_processes_share_a_cache(server, tmp_path):
    children = [answering(tmp_path / "new", 60, 4) for _ in range(3)]
    assert [child.communicate(timeout=60)[0] for child in children] == ["60\n"] * 3
    assert kept(tmp_path / "new") == 60


@pytest.fixture(scope="module")
def model_server(tmp_path_factory):
    """URL and model name of `transformers serve` with a random two-layer Llama that this fixture makes."""
    for package in ("fastapi", "uvicorn", "accelerate"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"`transformers serve` needs {package}: pip install 'transformers[serving]'")
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<s>", "</s>", *alphabet])}
    letters = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary), bos_token_id=0, eos_token_id=1, **shape))
    model.save_pretrained(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "server.log"
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder)]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
            stdout=stream,
            stderr=stream,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
    try:
        for _ in range(1800):
            assert process.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(log.read_text())
        yield f"http://127.0.0.1:{port}/v1", str(folder)
    finally:
        process.kill()
        process.wait()


@pytest.mark.whole
@pytest.mark.full
def test_real_model_server_answers_over_the_same_wire(model_server, tmp_path, monkeypatch):
    url, model = model_server
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    llm = client(tmp_path, model=model, max_tokens=12, concurrency=2, timeout=60)
    answers = [llm.complete(ask(text)) for text in ("herons", "otters")]
    assert [type(answer) for answer in answers] == [Completion] * 2, answers
    assert all(answer.text and answer.tokens_in > 10 and 0 < answer.tokens_out <= 12 for answer in answers)
    assert {answer.finish_reason for answer in answers} <= {"stop", "length"}
    assert (llm.tally.calls, llm.tally.retries) == (2, 0)
    again = client(tmp_path, model=model, max_tokens=12)
    assert [again.complete(ask(text)).text for text in ("herons", "otters")] == [answer.text for answer in answers]
    assert again.tally.calls == 0
