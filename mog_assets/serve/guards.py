"""The guard in front of every route: the host that was asked, the page that asks, the key, the body, the places."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mog_assets.resources.errors import MogError
from mog_assets.serve.hooks import Authorizer
from mog_assets.serve.limits import (
    BODIES,
    HEAD_BYTES,
    HEADERS,
    LINGER_SECONDS,
    RETRY_SECONDS,
    TARGET_CHARS,
    ServerOptions,
    check_json,
)
from mog_assets.serve.problems import Problem, problem_of

# Anybody may ask for these: they hold nothing of the project's documents.
_PAGE = ("/", "/page.js", "/page.css", "/document", "/document.js")
OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", *_PAGE})
METRICS = "/metrics"
# Answered when all places for requests are taken.
HEALTH = frozenset({"/healthz", "/readyz", METRICS, "/server_info"})


class Guard:
    """Turns away requests for another host, from another web site, without the key, or with too large or slow a body.

    A page of another site can make a browser send requests to this machine, and can give its own name the address
    127.0.0.1 (DNS rebinding). It cannot change the headers `Host` and `Origin`. A body is received before anything else
    happens; then the request is taken on, if there is a place for it. For a health check there always is.

    Attributes:
        open: Paths that need no key.
        shown: Paths that pages of other sites may ask for.
        remedy: For whoever opens the pages of another site.
    """

    open = OPEN
    shown = OPEN
    remedy = "if it is this server's own, behind a proxy, start it with --public-url; else see --allow-origin"

    def __init__(
        self,
        app: ASGIApp,
        options: ServerOptions,
        authorizer: Authorizer | None = None,
        long_texts: tuple[str, ...] = (),
    ) -> None:
        self.app, self.options, self.authorizer, self.long_texts = app, options, authorizer, long_texts
        self._key = options.key.encode()
        self._arriving = 0
        self._answered: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        unread = True
        try:
            headers = Headers(scope=scope)
            _check_head(scope, headers)
            self._check(scope, headers)
            await self._check_caller(scope, headers)
            # A page of any site may also open a WebSocket.
            if scope["type"] == "websocket":
                await self.app(scope, receive, send)
                return
            body = await self._body(headers, receive)
            if body is None:
                return
            unread = False
            if body:
                long = scope["path"].startswith(self.long_texts)
                check_json(body, self.options.body_bytes if long else self.options.text_chars)
            address = "" if scope["path"] in HEALTH else (scope["client"] or ("",))[0]
            one, most = self.options.connections_per_address, self.options.connections
            if address and (self._answered[address] >= one or self._answered.total() >= most):
                raise _busy("All places for requests are taken")
        except Problem as problem:
            await refuse(problem, scope, receive, send, unread)
            return
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        self._answered[address] += 1
        try:
            await self.app(scope, replay, send)
        finally:
            self._answered[address] -= 1
            if not self._answered[address]:
                del self._answered[address]

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """Receive the body; None if the caller went away."""
        most, seconds, body, more = self.options.body_bytes, self.options.body_seconds, bytearray(), True
        too_large = Problem(413, f"The body may have at most {most:,} bytes", "too much")
        # The parser of HTTP has turned away what is no number.
        if int(headers.get("content-length") or 0) > most:
            raise too_large
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    body += part
                    self._arriving += len(part)
                    if len(body) > most:
                        raise too_large
                    if self._arriving > BODIES * most:
                        raise _busy("Too many large requests arrive")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Problem(408, f"The body did not arrive within {seconds:g} s", "late") from None
        finally:
            self._arriving -= len(body)
        return bytes(body)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host, path = headers.get("host", ""), scope["path"]
        public, name, _ = self.options.public
        if self.options.hosts and _name(host) not in {*self.options.hosts, name} - {""}:
            hosts = ", ".join(self.options.hosts)
            remedy = "--public-url and the address that browsers open, and have the proxy send one of these hosts"
            why = f"expected one of {hosts}, got {_name(host)!r}: if a proxy sends this, start the server with {remedy}"
            raise Problem(421, f"Host: {why}", "host")
        origin = headers.get("origin")
        # The files of the page say what is refused: browsers ask for its scripts with an origin, too.
        own = path in self.shown or origin is None or _place(origin) == host or (name and origin == public)
        if not own and origin not in self.options.origins:
            raise Problem(403, f"Origin: pages of {origin!r} may not call this server: {self.remedy}", "origin")

    async def _check_caller(self, scope: Scope, headers: Headers) -> None:
        """Let callers with the right key pass; if each has one of its own, say who they are."""
        path, authorizer = scope["path"], self.authorizer
        if path in self.open:
            return
        if authorizer is None:
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
                principal = await asyncio.to_thread(authorizer.bearer, token)
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


async def refuse(problem: Problem, scope: Scope, receive: Receive, send: Send, unread: bool = True) -> None:
    """Answer a request that is turned away; it ends the connection if a body is still to come.

    What is sent meanwhile is taken for a while: the end of a connection on which something comes destroys the answer.
    """

    async def lingering(message: Message) -> None:
        if unread and message["type"] == "http.response.body":
            await send({**message, "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    while (await receive()).get("more_body"):
                        pass
            message = {"type": "http.response.body"}
        await send(message)

    scope["state"]["reason"] = problem.reason
    headers = Headers(scope=scope)
    if unread and (headers.get("content-length", "0") != "0" or "transfer-encoding" in headers):
        problem.headers["Connection"] = "close"
    await problem.response(scope["path"])(scope, receive, lingering)


def _check_head(scope: Scope, headers: Headers) -> None:
    """Check what comes before a body."""
    target = len(scope["raw_path"]) + len(scope["query_string"])
    if target > TARGET_CHARS:
        raise Problem(414, f"path: expected at most {TARGET_CHARS:,} characters, got {target:,}", "too much")
    size = target + sum(len(name) + len(value) for name, value in headers.raw)
    if size > HEAD_BYTES or len(headers.raw) > HEADERS:
        most = f"{HEADERS} of {HEAD_BYTES:,} bytes in all"
        raise Problem(431, f"headers: expected at most {most}, got {len(headers.raw)} of {size:,}", "too much")
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Problem(400, "headers: expected Content-Length or Transfer-Encoding, got both", "not http")


def _place(origin: str) -> str | None:
    """Return host and port of an origin; None if it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(host: str) -> str:
    """Return the name in a header `Host`, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[").lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _busy(why: str) -> Problem:
    return Problem(503, f"{why}: try again later", "crowded", {"Retry-After": str(RETRY_SECONDS)})
