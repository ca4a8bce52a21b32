"""ASGI middleware in front of every route: the host that was asked, the page that asks, the key, the body."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mog_assets.resources.errors import MogError
from mog_assets.serving.limits import HEAD_BYTES, HEADERS, RETRY_SECONDS, TARGET_CHARS, ServerOptions, check_json
from mog_assets.serving.permissions import Permissions
from mog_assets.serving.problems import Problem, problem_of

# Anybody may ask for these: they hold nothing of the project's documents.
OPEN = frozenset(
    {
        "/healthz",
        "/readyz",
        "/docs",
        "/openapi.json",
        "/",
        "/page.js",
        "/page.css",
        "/document",
        "/document.js",
    }
)


# Answered when all places for requests are taken.
METRICS = "/metrics"
DOCUMENTS = "/v1/documents/"
HEALTH = frozenset({"/healthz", "/readyz", METRICS, "/server_info"})


class Guard:
    """Turns away requests for another host, from another web site, or without the key.

    A page of another site can make a browser send requests to this machine, and can give its own name the address
    127.0.0.1 (DNS rebinding). It cannot change the headers `Host` and `Origin`.

    Attributes:
        open: Paths that need no key.
        shown: Paths that pages of other sites may ask for.
        remedy: For whoever opens the pages of another site.
    """

    open = OPEN
    shown = OPEN
    remedy = "if it is this server's own, behind a proxy, start it with --public-url; else see --allow-origin"

    def __init__(self, app: ASGIApp, options: ServerOptions, permissions: Permissions | None = None) -> None:
        self.app, self.options, self.permissions = app, options, permissions
        self._key = options.key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # A page of any site may also open a WebSocket.
        if scope["type"] in ("http", "websocket"):
            try:
                headers = Headers(scope=scope)
                _check_head(scope, headers)
                self._check(scope["path"], headers)
                await self._check_caller(scope, headers)
            except Problem as problem:
                await refuse(problem, scope)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        public, name, _ = self.options.public
        if self.options.hosts and _name(host) not in {*self.options.hosts, name} - {""}:
            hosts = ", ".join(self.options.hosts)
            raise Problem(
                421,
                f"Host: expected one of {hosts}, got {_name(host)!r}: if a proxy sends this, start the server with "
                "--public-url and the address that browsers open, and have the proxy send one of these hosts",
                "host",
            )
        origin = headers.get("origin")
        # The files of the page say what is refused: browsers ask for its scripts with an origin, too.
        own = path in self.shown or origin is None or _place(origin) == host or (name and origin == public)
        if not own and origin not in self.options.origins:
            raise Problem(403, f"Origin: pages of {origin!r} may not call this server: {self.remedy}", "origin")

    async def _check_caller(self, scope: Scope, headers: Headers) -> None:
        """Let callers with the right key pass; with permissions, say who they are."""
        path, permissions = scope["path"], self.permissions
        if path in self.open:
            return
        if permissions is None:
            if self._key:
                self._check_key(headers.get("authorization", ""))
        elif path == METRICS:
            # Of the whole project, for who runs it.
            if not self._key:
                raise _wrong("Authorization: expected the key of MOG_API_KEY, which is not set")
            self._check_key(headers.get("authorization", ""))
        else:
            token = _token(headers.get("authorization", ""), "a key or token of your own")
            try:
                principal = await asyncio.to_thread(permissions.bearer, token)
            except MogError as error:
                raise problem_of(error) from error
            if principal is None:
                raise _wrong("Authorization: this is nobody's key or token, or it has expired")
            scope["state"]["principal"] = principal

    def _check_key(self, authorization: str) -> None:
        token = _token(authorization, "the key of MOG_API_KEY")
        if not hmac.compare_digest(token.encode("latin-1", "replace"), self._key):
            raise _wrong("Authorization: this is not the key of MOG_API_KEY")


def _token(authorization: str, what: str) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        challenge = {"WWW-Authenticate": "Bearer"}
        raise Problem(401, f"Authorization: expected `Bearer KEY` with {what}", "no key", challenge)
    return token.strip()


def _wrong(detail: str) -> Problem:
    return Problem(401, detail, "wrong key", {"WWW-Authenticate": 'Bearer error="invalid_token"'})


def refuse(problem: Problem, scope: Scope) -> ASGIApp:
    """The answer to a request that is turned away; it ends the connection if a body is still to come."""
    headers = Headers(scope=scope)
    scope["state"]["reason"] = problem.reason
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        problem.headers["Connection"] = "close"
    return problem.response(scope["path"])


def _check_head(scope: Scope, headers: Headers) -> None:
    """Check what comes before a body.

    Raises:
        Problem: it is too large (414, 431), or says in two ways where the body ends (400).
    """
    target = len(scope["raw_path"]) + len(scope["query_string"])
    if target > TARGET_CHARS:
        raise Problem(414, f"path: expected at most {TARGET_CHARS:,} characters, got {target:,}", "too much")
    size = target + sum(len(name) + len(value) for name, value in headers.raw)
    if size > HEAD_BYTES or len(headers.raw) > HEADERS:
        raise Problem(
            431,
            f"headers: expected at most {HEADERS} of {HEAD_BYTES:,} bytes in all, got {len(headers.raw)} of {size:,}",
            "too much",
        )
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Problem(400, "headers: expected Content-Length or Transfer-Encoding, got both", "not http")


def _place(origin: str) -> str | None:
    """Host and port of an origin; None if it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(host: str) -> str:
    """The name in a header `Host`, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[").lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


class Body:
    """Receives the whole body before anything else happens, if it is not too large and does not take too long.

    Then the request is taken on, if there is a place for it; for a health check there always is. A caller that does not
    take the answer loses the connection.

    Args:
        app: What answers.
        options: Of the server.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self.app, self.options = app, options
        self._arriving = 0
        self._answered: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await self._body(Headers(scope=scope), receive)
            if body is None:
                return
            if body:
                # A document may be as long as a body.
                pushing = scope["path"].startswith(DOCUMENTS)
                check_json(body, self.options.body_bytes if pushing else self.options.text_chars)
            address = "" if scope["path"] in HEALTH else (scope["client"] or ("",))[0]
            if address:
                self._check_places(address)
        except Problem as problem:
            scope["state"]["reason"] = problem.reason
            problem.headers["Connection"] = "close"
            await problem.response(scope["path"])(scope, receive, send)
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        async def hurried(message: Message) -> None:
            await asyncio.wait_for(send(message), self.options.send_seconds)

        self._answered[address] += 1
        try:
            await self.app(scope, replay, hurried)
        finally:
            self._answered[address] -= 1
            if not self._answered[address]:
                del self._answered[address]

    def _check_places(self, address: str) -> None:
        options = self.options
        if self._answered[address] >= options.connections_per_address or self._answered.total() >= options.connections:
            raise _busy("All places for requests are taken")

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """The body; None if the caller went away.

        Raises:
            Problem: it is too large (413), takes too long (408), or too much arrives at the same time (503).
        """
        most, declared = self.options.body_bytes, headers.get("content-length", "")
        too_large = Problem(413, f"The body may have at most {most:,} bytes", "too much")
        # The parser of HTTP has turned away what is no number.
        if declared and int(declared) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.options.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    body += part
                    self._arriving += len(part)
                    if len(body) > most:
                        raise too_large
                    if self._arriving > self.options.arriving_bytes:
                        raise _busy("Too many large requests arrive")
                    more = message.get("more_body", False)
        except TimeoutError:
            seconds = self.options.body_seconds
            raise Problem(408, f"The body did not arrive within {seconds:g} s", "late") from None
        finally:
            self._arriving -= len(body)
        return bytes(body)


def _busy(why: str) -> Problem:
    return Problem(503, f"{why}: try again later", "crowded", {"Retry-After": str(RETRY_SECONDS)})


class Head:
    """Answers HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def bare(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        scope["method"] = "GET"
        try:
            await self.app(scope, receive, bare)
        finally:
            scope["method"] = "HEAD"
