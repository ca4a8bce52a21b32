"""The guard in front of Dagster's web server, which by itself obeys every page that a browser opens."""

from __future__ import annotations

import base64
import binascii

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.types import Message, Receive, Scope, Send

from mog_assets.serve.guards import Guard
from mog_assets.serve.problems import Problem, log

HEALTH = "/server_info"
_HEADERS = {"X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin"}


class UiGuard(Guard):
    """As `Guard`; a browser asks its user for the key, as the password of any user name.

    It also turns away what could change something, unless it is JSON in the body of a POST: a browser sends such a
    request to another site only if that site allows it. Dagster also runs what is in the URL.
    """

    open = frozenset({HEALTH})
    shown: frozenset[str] = frozenset()
    remedy = "open the address that `mog ui` printed; behind a proxy, give it that address with --public-url"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            await super().__call__(scope, receive, framed)
        except Exception as error:
            log.error("unexpected error", exc_info=error)
            raise

    def _check(self, scope: Scope, headers: Headers) -> None:
        super()._check(scope, headers)
        method = scope.get("method", "GET")
        if method in ("GET", "HEAD"):
            # Whatever the path: there is more than one way to write that of GraphQL.
            if "query" in QueryParams(scope["query_string"]) and "text/html" not in headers.get("accept", ""):
                allow = {"Allow": "POST"}
                raise Problem(405, "GraphQL: expected a POST with JSON, got a query in the URL", "method", allow)
        elif method != "POST":
            raise Problem(405, f"expected GET, HEAD or POST, got {method}", "method", {"Allow": "GET, HEAD, POST"})
        elif (kind := headers.get("content-type", "").partition(";")[0].strip().lower()) != "application/json":
            raise Problem(415, f"Content-Type: expected application/json, got {kind!r}", "content type")

    def _check_key(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "basic":
            authorization = f"Bearer {_password(token)}"
        try:
            super()._check_key(authorization)
        except Problem as problem:
            problem.headers["WWW-Authenticate"] = 'Basic realm="mog ui", charset="UTF-8"'
            raise


def _password(token: str) -> str:
    try:
        return base64.b64decode(token, validate=True).decode("utf-8", "replace").partition(":")[2]
    except binascii.Error:
        return ""
