"""Connections that send slowly, or read nothing: uvicorn has a limit for neither, and drops no old one for a new one.

granian has one for heads, and takes nobody while too many are half-open: a question waited 10 s behind 1,100 of them.
"""

from __future__ import annotations

import asyncio
import errno
import sys
import time
from threading import Event
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mog_assets.serve.descriptors import SPARE
from mog_assets.serve.limits import LINGER_SECONDS, ServerOptions
from mog_assets.serve.observed import Metrics
from mog_assets.serve.problems import Problem, log

_QUIET_SECONDS = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Connections:
    """Follow the connections of a server, and drop those that it has no place for.

    Attributes:
        arriving: Those without a complete request, the one that has waited longest first. It goes when places are
            short, so that whoever opens many connections and sends little takes no place from others.
        stopping: Set when the server is told to stop.
    """

    def __init__(self, options: ServerOptions, metrics: Metrics) -> None:
        self.options, self.metrics, self.stopping = options, metrics, Event()
        self.arriving: dict[Connection, None] = {}
        self._logged = 0.0

    def end(self) -> None:
        """Drop all whose request is not complete: the time to finish is over."""
        for connection in list(self.arriving):
            connection.drop("stopping")

    def note(self, reason: str) -> None:
        """Count a connection that is dropped, and log that there are some, at most once a second."""
        self.metrics.dropped.labels(reason).inc()
        if time.monotonic() > self._logged + _QUIET_SECONDS:
            self._logged = time.monotonic()
            log.warning("connections dropped: %s", reason)

    def failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle what went wrong in the event loop: no connection could be accepted, or a fault of our own."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _EXHAUSTED:
            # asyncio calls this for each connection that it cannot accept, and tries again in a second.
            for connection in list(self.arriving)[:1]:
                connection.drop("files")
            self.note("refused")
        else:
            log.error("unexpected error: %s", context.get("message"), exc_info=error)


class Connection(H11Protocol):
    """A connection that is closed if the head of a request does not arrive in time, or nobody reads the answer."""

    owner: Connections
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        """Take a place, from the one that has waited longest if there is no other."""
        super().connection_made(transport)
        self._follow()
        if len(self.connections) > self.owner.options.connections + SPARE:
            next(iter(self.owner.arriving)).drop("crowded")

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; what comes after something that is not HTTP is not read."""
        if self.conn.their_state is not h11.ERROR:
            super().data_received(data)
            self._follow()

    def on_response_complete(self) -> None:
        """Wait for the next request, as long as uvicorn keeps a connection alive."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self.owner.arriving.setdefault(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        super().connection_lost(exc)
        self.owner.arriving.pop(self, None)
        _cancel(self._late)
        _cancel(self._unread)

    def drop(self, reason: str) -> None:
        """Close the connection at once."""
        self.owner.arriving.pop(self, None)
        self.owner.note(reason)
        self.transport.abort()

    def _follow(self) -> None:
        """Note whether a request is still to come, and give its head a time; the guard gives one to its body."""
        self.owner.metrics.connections.set(len(self.connections))
        state = self.conn.their_state
        if state is not h11.IDLE:
            _cancel(self._late)
            self._late = None
        elif self._late is None:
            self._late = self.loop.call_later(self.owner.options.body_seconds, self.drop, "late")
        # uvicorn forgets a connection that becomes a WebSocket.
        if state in (h11.IDLE, h11.SEND_BODY) and self in self.connections:
            self.owner.arriving.setdefault(self)
        else:
            self.owner.arriving.pop(self, None)

    def pause_writing(self) -> None:
        """Begin to wait for the caller to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.owner.options.send_seconds, self.drop, "unread")

    def resume_writing(self) -> None:
        """Stop waiting: the caller reads."""
        super().resume_writing()
        _cancel(self._unread)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, and end the connection a little later: closed at once, the answer may be lost."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        self.owner.metrics.rejected.labels("not http").inc()
        log.info("none none %d not http", status)
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        answer = Problem(status, f"{msg} {error}".strip(), headers={"Connection": "close"}).response("")
        response = h11.Response(status_code=status, headers=answer.raw_headers)
        for event in (response, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            # The request that was begun is not answered again.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def protocol(connections: Connections) -> type[Connection]:
    """Return the protocol of these connections, for uvicorn, which makes one object of it a connection."""
    return type("Connection", (Connection,), {"owner": connections})
