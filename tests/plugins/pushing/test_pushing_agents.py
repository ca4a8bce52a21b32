"""Agents that push documents."""

import asyncio
import json
import sqlite3

import pytest
from agents import over_stdio, told
from shared import new_project, run_alone

from mog_assets.plugins.pushing.pushed import push

# The plugin `agents` serves them.
pytestmark = [pytest.mark.full, pytest.mark.whole]


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
