"""ASGI middleware in front of Dagster's web server, which by itself obeys every page that a browser opens."""

from __future__ import annotations

import base64
import binascii

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mog_assets.serving.guards import Guard, refuse
from mog_assets.serving.problems import Problem, log

HEALTH = "/server_info"
_HEADERS = {"X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin"}


class UiGuard(Guard):
    """As `Guard`; a browser asks its user for the key, as the password of any user name."""

    open = frozenset({HEALTH})
    shown: frozenset[str] = frozenset()
    remedy = "open the address that `mog ui` printed; behind a proxy, give it that address with --public-url"

    def _check_key(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "basic":
            authorization = f"Bearer {_password(token)}"
        try:
            super()._check_key(authorization)
        except Problem as problem:
            problem.headers["WWW-Authenticate"] = 'Basic realm="mog ui", charset="UTF-8"'
            raise


class Changes:
    """Turns away what could change something, unless it is JSON in the body of a POST.

    A browser sends such a request to another site only if that site allows it. Dagster also runs what is in the URL.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        app = self.app
        if scope["type"] == "http":
            try:
                _check(scope["method"], QueryParams(scope["query_string"]), Headers(scope=scope))
            except Problem as problem:
                app = refuse(problem, scope)
        try:
            await app(scope, receive, framed)
        except Exception as error:
            log.error("unexpected error", exc_info=error)
            raise


def _check(method: str, query: QueryParams, headers: Headers) -> None:
    if method in ("GET", "HEAD"):
        # Whatever the path: there is more than one way to write that of GraphQL.
        if "query" in query and "text/html" not in headers.get("accept", ""):
            raise Problem(
                405, "GraphQL: expected a POST with JSON, got a query in the URL", "method", {"Allow": "POST"}
            )
    elif method != "POST":
        raise Problem(405, f"expected GET, HEAD or POST, got {method}", "method", {"Allow": "GET, HEAD, POST"})
    elif (kind := headers.get("content-type", "").partition(";")[0].strip().lower()) != "application/json":
        raise Problem(415, f"Content-Type: expected application/json, got {kind!r}", "content type")


def _password(token: str) -> str:
    try:
        return base64.b64decode(token, validate=True).decode("utf-8", "replace").partition(":")[2]
    except binascii.Error:
        return ""
