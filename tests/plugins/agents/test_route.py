"""The route `/mcp` of the HTTP server, where there is one."""

import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp")
from starlette.testclient import TestClient

from mog_assets.serve import http
from mog_assets.serve.limits import ServerOptions

PAGE = "https://ours.example"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def client():
    project = SimpleNamespace(authorizer=None, version="1", trouble="")
    return TestClient(http.app(project, ServerOptions(origins=(PAGE,))), base_url="http://localhost")


def test_pages_that_may_call_may_send_the_headers_of_agents():
    with client() as page:
        asked = "authorization, content-type, mcp-protocol-version, mcp-session-id"
        headers = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
        assert page.options("/mcp", headers=headers).status_code == 200
        headers["Access-Control-Request-Headers"] = "x-other"
        assert page.options("/mcp", headers=headers).status_code == 400
        accept = {"Accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        told = page.post("/mcp", json=LIST, headers=accept).json()
        assert {"search", "fetch", "ask"} <= {tool["name"] for tool in told["result"]["tools"]}


def test_without_the_package_there_is_no_route(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server.transport_security", None)
    with client() as page:
        assert page.post("/mcp", json=LIST).status_code in (404, 405)
        assert page.get("/healthz").status_code == 200
