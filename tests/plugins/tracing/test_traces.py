"""Traces: a question is followed from its caller to the endpoint of the model, through every door; off, nothing is."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from chat_server import ChatServer
from served import Served, command, environment
from shared import copy_folder, until
from trace_collector import TraceCollector

pytestmark = pytest.mark.full
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
ANSWER = json.dumps({"step_by_step_thinking": "It says so.", "answer": "fifteen years"})
TRACE_LINE = re.compile(r"^trace [0-9a-f]{32}$", re.M)
QUESTION = "For how many years does white rot of onions stay in the ground?"


@pytest.fixture(scope="module")
def model():
    with ChatServer(lambda messages: ANSWER) as server:
        yield server


@pytest.fixture(scope="module")
def asked_by_model(sample_project, model):
    path = sample_project.folder / "model.yaml"
    values = yaml.safe_load(sample_project.config.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump(values | {"answering": {"reader": "openai"}}, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture
def collector(monkeypatch, model):
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", "loopback")
    with TraceCollector() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def test_a_question_over_http_is_one_trace_from_the_caller_to_the_model(asked_by_model, model, collector, tmp_path):
    served = Served(asked_by_model, tmp_path, "--log-format", "json")
    try:
        status, headers, answer = served.call(
            "/v1/ask", {"question": QUESTION}, {"traceparent": PARENT, "X-Request-Id": "asked-1"}
        )
        assert (status, answer["answer"], answer["failure"]) == (200, "fifteen years", "")
        assert headers["X-Request-Id"] == "asked-1"
        # An error may quote what was sent.
        assert served.call("/v1/search", {"question": QUESTION, "where": {"Brussels": 1}})[0] == 400
        until(lambda: any("error.type" in span.attributes for span in collector.spans))
        until(lambda: any(span.name == "POST /v1/ask" for span in collector.spans))
    finally:
        served.end()
    spans = [span for span in collector.spans if span.trace == TRACE]
    (failed,) = (span for span in collector.spans if span.attributes.get("error.type") == "ConfigError")
    assert failed.name == "retrieve" and "Brussels" not in failed.raw
    (chat,) = (span for span in spans if span.name.startswith("chat "))
    (root,) = (span for span in spans if span.name == "POST /v1/ask")
    assert root.parent == CALLER and {span.service for span in spans} == {"mog-assets"}
    assert collector.path(chat) == ["POST /v1/ask", "ask", "answer", chat.name]
    (encode,) = (span for span in spans if span.name == "encode")
    assert collector.path(encode) == ["POST /v1/ask", "ask", "rank", "search", "encode"]
    assert chat.attributes["gen_ai.usage.input_tokens"] > 0
    # The endpoint is told which span asks.
    assert model.calls[-1].headers["traceparent"] == f"00-{TRACE}-{chat.id}-01"
    assert all(one.start >= root.start and one.end <= root.end for one in spans)
    # No text of a question or a document leaves by this way.
    assert not any("white rot" in span.raw.lower() or "fifteen" in span.raw for span in spans)
    rows = [json.loads(line) for line in served.log.read_text("utf-8").splitlines()]
    (row,) = (row for row in rows if row.get("route") == "/v1/ask")
    assert row["request_id"] == "asked-1" and row["trace_id"] == TRACE and row["status"] == 200 and row["ms"] > 0


@pytest.mark.whole
def test_agents_and_commands_name_their_trace(sample_project, collector, tmp_path):
    messages = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "search", "arguments": {"query": QUESTION}, "_meta": {"traceparent": PARENT}},
        },
    ]
    agent = subprocess.Popen(
        [*command("mcp"), "--config", sample_project.config],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    for message in messages:
        agent.stdin.write(json.dumps(message) + "\n")
        agent.stdin.flush()
    while json.loads(agent.stdout.readline()).get("id") != 2:
        pass
    until(lambda: any(span.name == "tools/call search" for span in collector.spans))
    agent.stdin.close()
    agent.wait(30)
    agent.stdout.close()
    (retrieve,) = (span for span in collector.spans if span.name == "retrieve")
    assert retrieve.trace == TRACE and collector.path(retrieve)[-2:] == ["tools/call search", "retrieve"]
    collector.spans.clear()
    words = [*command("search"), QUESTION, "--config", sample_project.config]
    subprocess.run(words, env=environment(TRACEPARENT=PARENT), check=True, capture_output=True)
    (root,) = (span for span in collector.spans if span.name == "mog search")
    assert (root.trace, root.parent) == (TRACE, CALLER)
    assert any(collector.path(span)[:3] == ["mog search", "retrieve", "rank"] for span in collector.spans)


def test_each_asset_of_a_run_is_a_span_of_it(sample_project, collector, tmp_path):
    folder = tmp_path / "project"
    copy_folder(sample_project.folder, folder)
    moon = folder / "samples" / "sky" / "moon.txt"
    moon.write_text(moon.read_text("utf-8") + "\n\nA moonbow is a rainbow by moonlight.\n", "utf-8")
    words = [*command("run"), "--corpus", "sky", "--select", "documents", "--config", folder / "mog.yaml"]
    subprocess.run(words, env=environment(TRACEPARENT=PARENT), check=True, capture_output=True)
    assets = [span for span in collector.spans if "mog.built" in span.attributes]
    assert {span.trace for span in assets} == {TRACE}
    built = [span for span in assets if span.attributes["mog.built"]]
    assert [(span.name, span.attributes["mog.corpus"]) for span in built] == [("documents", "sky")]
    assert built[0].attributes["mog.why"].startswith("changed: ")
    assert all(collector.path(span)[0] == "mog run" for span in assets)


def test_a_trace_can_be_read_on_the_terminal(sample_project):
    words = [*command("search"), QUESTION, "--k", "1", "--config", sample_project.config]
    done = subprocess.run(
        words, env=environment(OTEL_TRACES_EXPORTER="console"), check=True, capture_output=True, text=True
    )
    lines = done.stderr.splitlines()
    assert [line.split()[0] for line in lines[lines.index(next(filter(TRACE_LINE.match, lines))) + 1 :]] == [
        "mog",
        "retrieve",
        "open",
        "rank",
        "search",
        "encode",
        "join",
    ]
    assert not TRACE_LINE.search(done.stdout)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: expected otlp, console or none, got 'zipkin'"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf, got 'grpc'",
        ),
    ],
)
def test_what_cannot_collect_spans_is_told(sample_project, variables, said):
    words = [*command("documents"), "--config", sample_project.config]
    done = subprocess.run(words, env=environment(**variables), capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"mog: {said}\n"


OFF = """
import sys
import mog_assets
from mog_assets.resources import tracing
with mog_assets.open(sys.argv[1]) as project:
    assert project.search("How deep should garlic cloves be planted?", k=1).passages
assert tracing.span("encode", texts=1) is tracing.span("rank")
assert tracing.headers() == {} and tracing.ids() == {} and tracing.carried(print) is print
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_off_there_is_no_span_and_nothing_is_imported(sample_project):
    for more in ({}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}):
        done = subprocess.run(
            [sys.executable, "-c", OFF, str(sample_project.config)],
            env=environment(**more),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "[]\n"


def test_a_tracer_of_the_program_that_has_a_project_gets_its_spans(sample_project):
    pytest.importorskip("opentelemetry.sdk", reason="the extra `traces` is not installed")
    code = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
import mog_assets
with mog_assets.open(sys.argv[1]) as project, trace.get_tracer("theirs").start_as_current_span("theirs"):
    project.search("How deep should garlic cloves be planted?", k=1)
print(" ".join(span.name for span in kept.get_finished_spans()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(sample_project.config)],
        env={**environment(), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    names = done.stdout.split()
    opened = names.index("open")
    assert names[opened + 1 :] == ["encode", "search", "rank", "join", "retrieve", "theirs"]
