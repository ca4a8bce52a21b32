"""The tools for agents, by the official client: over standard input and output, and over HTTP."""

import asyncio
import json
import subprocess
import sys

import pytest
from agents import KEY, over_http, over_stdio, told
from served import Served, command, environment

pytestmark = pytest.mark.full

QUESTION = "How deep should garlic cloves be planted?"


@pytest.fixture(scope="module")
def served(sample_project, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mcp")
    started = Served(sample_project.config, folder, "--max-question", 500, "--max-budget", 400, key=KEY)
    yield started
    started.end()


async def used(agent):
    """Every tool once, as an agent goes on from one to the next."""
    tools = {tool.name: tool for tool in (await agent.list_tools()).tools}
    assert set(tools) == {"search", "fetch", "ask"}
    assert tools["search"].input_schema["required"] == ["query"]
    assert tools["fetch"].input_schema["required"] == ["id"]
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools.values())
    found = told(await agent.call_tool("search", {"query": QUESTION}))
    assert {"id", "title", "url"} <= set(found["results"][0])
    first = found["results"][0]
    assert first["id"].startswith("garden/garlic#") and first["title"] == "Garlic"
    passage = told(await agent.call_tool("fetch", {"id": first["id"]}))
    assert set(passage) == {"id", "title", "text", "url", "metadata"}
    assert passage["url"] == first["url"]
    whole = told(await agent.call_tool("fetch", {"id": "garden/garlic"}))
    answer = told(
        await agent.call_tool("ask", {"question": "For how many years does white rot of onions stay in the ground?"})
    )
    assert "fifteen" in answer["answer"]
    few = told(await agent.call_tool("search", {"query": QUESTION, "corpus": "sky", "k": 2}))
    assert len(few["results"]) == 2 and all(row["id"].startswith("sky/") for row in few["results"])
    onions = {"query": QUESTION, "where": {"title": "Onion"}}
    assert {row["title"] for row in told(await agent.call_tool("search", onions))["results"]} == {"Onion"}
    none = {"query": QUESTION, "where": {"title": "No document is called so"}}
    assert told(await agent.call_tool("search", none))["results"] == []
    return first, passage, whole


def test_an_agent_uses_the_tools_over_stdio(sample_project):
    first, passage, whole = asyncio.run(over_stdio(sample_project.config, used))
    assert passage["text"] == first["text"] and passage["text"] in whole["text"]
    assert first["url"].startswith("mog://garden/garlic#")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_uses_the_tools_over_http(served, mode):
    first, passage, _ = asyncio.run(over_http(served, used, mode=mode))
    assert first["url"].startswith(f"{served.url}/document?corpus=garden&id=garlic#")
    # A caller gets so many characters at once, and the way to the rest.
    assert passage["text"] == first["text"][:400] and len(passage["text"]) == 400
    assert passage["metadata"]["next"] == f"garden/garlic#400-{first['id'].rpartition('-')[2]}"


def test_other_hosts_pages_and_large_bodies_are_refused_over_http(served):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert served.call("/mcp", body, {"Origin": "http://evil.example"})[0] == 403
    assert served.call("/mcp", b" " * (2 << 20))[0] == 413
    # No stream that stays open.
    assert served.call("/mcp", headers={"Accept": "text/event-stream"})[0] == 405
    served.call("/mcp", body, {"Accept": "application/json, text/event-stream"})
    assert 'route="/mcp"' in served.call("/metrics")[2].decode()


@pytest.mark.parametrize(
    ("tool", "given", "named"),
    [
        ("search", {"query": "x" * 501}, "at most 500"),
        ("search", {"query": QUESTION, "k": 10**6}, "at most 200"),
        (
            "search",
            {"query": QUESTION, "where": {"colour": "red"}},
            "where.colour: expected a name that documents have",
        ),
        ("fetch", {"id": "../../etc/passwd"}, "corpora"),
        ("fetch", {"id": "garden/garlic#5-999999"}, "999999"),
        ("fetch", {"id": "garden/garlic#9-5"}, "9-5"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(served, tool, given, named):
    async def call(agent):
        return await agent.call_tool(tool, given)

    result = asyncio.run(over_http(served, call))
    assert result.is_error and named in result.content[0].text


def test_standard_output_carries_nothing_but_the_protocol_and_a_line_that_is_no_message_is_passed_over(sample_project):
    asked = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query": QUESTION}}},
        {"id": 3, "method": "tools/call", "params": {"name": "nothing", "arguments": {}}},
    ]
    asked[0]["params"]["clientInfo"] = {"name": "test", "version": "1"}
    process = subprocess.Popen(
        command("mcp", "--config", sample_project.config),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    answers = []
    for message in asked:
        process.stdin.write('{\n[]\n{"id": 7}\n')
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        if "id" in message:
            answers.append(json.loads(process.stdout.readline()))
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    rest, _ = process.communicate(timeout=30)
    assert rest == "" and process.returncode == 0


def test_a_fault_is_told_on_standard_error(tmp_path):
    (tmp_path / "mog.yaml").write_text("corpora: 3", encoding="utf-8")
    words = command("mcp", "--config", tmp_path / "mog.yaml")
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60, input="")
    assert done.returncode == 2 and done.stdout == "" and "corpora" in done.stderr


def test_a_missing_extra_is_named(sample_project):
    code = "import sys; sys.modules['mcp'] = None; from mog_assets.cli import main; main()"
    words = [sys.executable, "-c", code, "mcp", "--config", str(sample_project.config)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60, input="")
    assert done.returncode == 1 and "pip install 'mog-assets[mcp]'" in done.stderr
    assert done.stdout == "" and len(done.stderr.strip().splitlines()) == 1
