"""Agents that use a project by the official client of MCP."""

import json
import sys

import pytest

pytest.importorskip("mcp")
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from served import ROOT

KEY = "a-key-of-many-letters"


def by_stdio(config, *more):
    words = ["-m", "mog_assets.cli", "mcp", "--config", str(config), *more]
    return StdioServerParameters(command=sys.executable, args=words, env={"PYTHONPATH": str(ROOT)})


async def over_http(served, work, key=KEY, **client):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{served.url}/mcp", http_client=http)
        async with Client(transport, **client) as agent:
            return await work(agent)


async def over_stdio(config, work, *more):
    async with Client(by_stdio(config, *more)) as agent:
        return await work(agent)


def told(result):
    """What a tool gave: the text content is the structured content as JSON."""
    assert not result.is_error, result.content
    (text,) = result.content
    assert json.loads(text.text) == result.structured_content
    return result.structured_content
