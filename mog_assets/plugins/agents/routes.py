"""The server of tools as a route of the HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mog_assets.registry import ROUTES
from mog_assets.serve.http import Serving

PATH = "/mcp"


class _Endpoint:
    """Names its route for the metrics, as FastAPI does for its own."""

    def __init__(self, inner: ASGIApp) -> None:
        self.inner, self.path = inner, PATH

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        await self.inner(scope, receive, send)


def add_agents(http: FastAPI, serving: Serving) -> None:
    """Add the route, if the package is installed.

    Each request stands alone, so that any process can answer it; key, host and size are checked before it comes here.
    """
    try:
        from mcp.server.transport_security import TransportSecuritySettings

        from mog_assets.plugins.agents.server import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        return
    agents = server(serving.project, serving.options, serving.search, serving.answers, serving.documents)
    app = agents.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        max_request_body_size=serving.options.body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    (inner,) = (route for route in app.routes if isinstance(route, Route))

    # No GET: a stream of what the server tells by itself would stay open, and there is nothing to tell.
    http.routes.append(Route(PATH, endpoint=_Endpoint(inner.endpoint), methods=["POST"]))
    outer = http.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with outer(app) as state, agents.session_manager.run():
            yield state

    http.router.lifespan_context = lifespan
    serving.headers += ["mcp-protocol-version", "mcp-session-id"]


ROUTES.register("agents", add_agents)
