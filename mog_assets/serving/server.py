"""Run the HTTP server until it is told to stop, and let what runs finish."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from threading import Event
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from mog_assets.serving.limits import Options
from mog_assets.serving.problems import log
from resources.errors import ConfigError, MogError

_HEAD_BYTES = 32 << 10
_KEEP_ALIVE_SECONDS = 5
_SWITCH_SECONDS = 0.0005


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address.

    Raises:
        ConfigError: there is no such address.
        MogError: it is in use, or may not be used.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ConfigError(f"--host: expected the name or address of this machine, got {host!r}") from error
    # asyncio sends small packets at once only if the protocol is named; otherwise each response waits 40 ms.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise MogError(f"cannot listen on {host} port {port}: {error.strerror}: choose another with --port") from error
    opened.setblocking(False)
    return opened


def url_of(opened: socket.socket) -> str:
    """The URL of a socket."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    app: ASGIApp,
    options: Options,
    opened: socket.socket,
    ready: Callable[[], None],
    stopping: Event,
    websockets: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT; then no request is accepted any more, and those that run have a time to finish.

    Call it in the main thread, which receives signals.

    Args:
        app: The application.
        options: Its options.
        opened: A socket that listens.
        ready: Called when requests are answered.
        stopping: Set when the server is told to stop.
        websockets: Whether the application speaks WebSocket too.
    """
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_protocol(options.body_seconds, options.send_seconds),
        ws="auto" if websockets else "none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=options.connections,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(options.drain)),
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    # A question takes Python's lock some hundred times. While new artefacts are opened, it waits so long each time.
    sys.setswitchinterval(_SWITCH_SECONDS)
    server = _Server(config, stopping, ready)
    # uvicorn raises the signal again when it has ended, for the handlers that were there before.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    server.run(sockets=[opened])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, stopping: Event, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping, self._ready = stopping, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping: running requests are finished, no others are accepted")
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._stopping.set()
        super().handle_exit(sig, frame)


def _protocol(seconds: float, unread_seconds: float) -> type[asyncio.Protocol]:
    """A protocol that closes a connection on which the head of a request does not arrive in time, or nobody reads.

    uvicorn closes those on which nothing comes between two requests, and no others.
    """

    class Hurried(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            if self._unread is not None:
                self._unread.cancel()
            super().connection_lost(exc)

        def _watch(self) -> None:
            if self.conn.their_state is not h11.IDLE:
                self._unwatch()
            elif self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self._late)

        def _unwatch(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def pause_writing(self) -> None:
            super().pause_writing()
            # Who does not read for so long loses the connection with all that waits in it.
            self._unread = self.loop.call_later(unread_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._unread is not None:
                self._unread.cancel()

        def _late(self) -> None:
            self._deadline = None
            # Between two requests the time of keep-alive counts.
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.transport.close()

    return Hurried


def log_to_stderr() -> None:
    """Write the log of requests to standard error, a line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
