"""Agents that push documents, over standard input and output and over HTTP."""

import asyncio
import hashlib
import json
import sqlite3

import pytest
from agents import over_http, over_stdio, told
from served import Served
from shared import new_project, run_alone

from mog_assets.plugins.pushing.pushed import push

pytestmark = pytest.mark.full


def test_an_agent_pushes_documents_where_it_may(tmp_path):
    made = new_project(tmp_path / "p", {"corpora": {"notes": {"pushed": "notes.sqlite"}}})
    push(made.folder / "notes.sqlite", [{"id": "hens", "text": "Hens lay eggs."}])
    assert not run_alone(made.settings).failures

    async def names(agent):
        return {tool.name for tool in (await agent.list_tools()).tools}

    async def pushing(agent):
        put = [{"id": "owls", "text": "Owls hunt voles.", "metadata": {"seen": 2026}}]
        assert (await agent.list_tools()).tools[-1].annotations.destructive_hint
        first = told(await agent.call_tool("push", {"corpus": "notes", "put": put, "delete": ["hens"]}))
        again = told(await agent.call_tool("push", {"corpus": "notes", "put": put}))
        wrong = await agent.call_tool("push", {"corpus": "other", "put": put})
        return first["changed"], again["changed"], wrong.is_error and wrong.content[0].text

    config = made.folder / "mog.yaml"
    assert "push" not in asyncio.run(over_stdio(config, names))
    first, again, wrong = asyncio.run(over_stdio(config, pushing, "--push"))
    assert (first, again) == (2, 0) and "notes" in wrong
    with sqlite3.connect(made.folder / "notes.sqlite") as connection:
        assert [json.loads(line)["id"] for (line,) in connection.execute("SELECT line FROM documents")] == ["owls"]
    # The rules say who may.
    keys = {name: hashlib.sha256(f"a-key-of-{name}".encode()).hexdigest() for name in ("anna", "ben")}
    rules = {
        "principals": {name: {"key": f"sha256:{key}"} for name, key in keys.items()},
        "rules": [{"allow": ["everyone"], "where": {"corpus": "notes"}}],
        "push": [{"corpora": ["notes"], "allow": ["user:anna"]}],
    }
    (made.folder / "access.yaml").write_text(json.dumps(rules))
    config.write_text(config.read_text() + "permissions: access.yaml\n")
    started = Served(config, tmp_path)
    try:

        async def one(agent):
            return (await agent.call_tool("push", {"corpus": "notes", "delete": ["owls"]})).is_error

        assert asyncio.run(over_http(started, one, "a-key-of-ben")) is True
        assert asyncio.run(over_http(started, one, "a-key-of-anna")) is False
    finally:
        started.end()
