"""Connections: how many there may be, which of them goes when places are short, and how one ends."""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mog_assets.serving.descriptors import SPARE
from mog_assets.serving.limits import ServerOptions
from mog_assets.serving.observed import Metrics
from mog_assets.serving.problems import PROBLEM_TYPE, Problem, log

# For the rest of a request that was answered before it was complete: whoever still sends then may miss the answer.
_LINGER_SECONDS = 2.0
_TOLD_SECONDS = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Room:
    """Connections that share a number of places.

    Attributes:
        places: For connections; there are `SPARE` more, so that one for a health check can always come.
        arriving: Connections without a complete request, the one that has waited longest first.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.all: set[Connection] = set()
        self.arriving: dict[Connection, None] = {}

    def leave(self, connection: Connection) -> None:
        self.all.discard(connection)
        self.arriving.pop(connection, None)


class Connections:
    """The open connections of a server.

    A connection arrives until its request is complete. Whoever opens many connections and sends little, or slowly,
    takes no place from others: when places are short, the connection that has been arriving longest is closed.

    Args:
        options: Of the server.
        metrics: Of the server.
    """

    def __init__(self, options: ServerOptions, metrics: Metrics) -> None:
        self.options, self.metrics = options, metrics
        self._everybody = _Room(options.connections)
        self._by_address: dict[str, _Room] = {}
        self._untold: Counter[str] = Counter()
        metrics.connections.set_function(lambda: len(self._everybody.all))

    def enter(self, connection: Connection) -> None:
        """Take a connection, and drop one that takes the place of another."""
        address = self._by_address.setdefault(connection.address, _Room(self.options.connections_per_address))
        connection.rooms = (address, self._everybody)
        for room in connection.rooms:
            room.all.add(connection)
            room.arriving[connection] = None
        for room, reason in zip(connection.rooms, ("address", "crowded"), strict=True):
            if len(room.all) > room.places + SPARE:
                next(iter(room.arriving)).drop(reason)

    def leave(self, connection: Connection) -> None:
        """Forget a connection."""
        for room in connection.rooms:
            room.leave(connection)
        address = self._by_address.get(connection.address)
        if address is not None and not address.all:
            del self._by_address[connection.address]

    def end(self) -> None:
        """Drop all whose request is not complete."""
        for connection in list(self._everybody.arriving):
            connection.drop("stopping")

    def failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle what went wrong in the event loop: no connection could be accepted, or a fault of our own."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _EXHAUSTED:
            # asyncio calls this for each connection that it cannot accept, and tries again in a second.
            for connection in list(self._everybody.arriving)[:1]:
                connection.drop("files")
            self.note("refused")
        else:
            log.error("unexpected error: %s", context.get("message"), exc_info=error)

    def note(self, reason: str) -> None:
        """Count what happened to a connection, and log it at most once a second, with how often."""
        self.metrics.dropped.labels(reason).inc()
        if not self._untold:
            asyncio.get_running_loop().call_later(_TOLD_SECONDS, self._tell)
        self._untold[reason] += 1

    def _tell(self) -> None:
        summary = ", ".join(f"{number} {reason}" for reason, number in self._untold.items())
        self._untold.clear()
        log.warning("connections dropped: %s", summary)


class _Transport:
    """A transport whose end waits for the rest of a request: closed at once, the caller might not get the answer."""

    def __init__(self, inner: Any, connection: Connection) -> None:
        self._inner, self._connection = inner, connection
        self.lingers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def is_closing(self) -> bool:
        return self.lingers or self._inner.is_closing()

    def close(self) -> None:
        if self._inner.is_closing() or not self._connection.unread:
            self._inner.close()
        elif not self.lingers:
            self.lingers = True
            self._inner.write_eof()
            self._inner.resume_reading()
            self._connection.loop.call_later(_LINGER_SECONDS, self._inner.abort)


class Connection(H11Protocol):
    """A connection that is closed if the head of a request does not arrive in time, or nobody reads the answer.

    uvicorn closes those on which nothing comes between two requests, and no others.
    """

    among: Connections
    rooms: tuple[_Room, ...] = ()
    address = ""
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a place."""
        super().connection_made(_Transport(transport, self))  # type: ignore[arg-type]
        self.address = self.client[0] if self.client else ""
        self.among.enter(self)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; what comes after an answer that ends the connection is not read."""
        if not self.transport.is_closing():
            super().data_received(data)
            self._follow()
            self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self.among.leave(self)
        self._settle()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Keep the place for the WebSocket that the connection becomes."""
        super().handle_websocket_upgrade(event)
        self._settle()
        socket = self.transport.get_protocol()
        lost = socket.connection_lost

        def leave(exc: Exception | None) -> None:
            self.among.leave(self)
            lost(exc)

        socket.connection_lost = leave  # type: ignore[method-assign]  # uvicorn forgets what it was.

    @property
    def unread(self) -> bool:
        """Whether the caller may still be sending."""
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def drop(self, reason: str) -> None:
        """Close the connection at once."""
        self.among.leave(self)
        self.among.note(reason)
        self.transport.abort()

    def _follow(self) -> None:
        """Note whether a request is still to come."""
        arriving = self.unread or self.conn.their_state is h11.IDLE
        for room in self.rooms:
            if not arriving:
                room.arriving.pop(self, None)
            elif self in room.all:
                room.arriving.setdefault(self)

    def _watch(self) -> None:
        """Give the head of a request a time to come. Between two requests the time of keep-alive counts."""
        if self.conn.their_state is not h11.IDLE:
            self._settle()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.among.options.body_seconds, self._late)

    def _settle(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.among.note("late")
            self.transport.close()

    def pause_writing(self) -> None:
        """Begin to wait for the caller to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.among.options.send_seconds, self.drop, "unread")

    def resume_writing(self) -> None:
        """The caller reads."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        self.among.metrics.rejected.labels("not http").inc()
        log.info("none none %d not http", status)
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = json.dumps(Problem(status, f"{msg} {error}".strip()).to_json()).encode()
        length = str(len(body)).encode()
        headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"content-length", length), (b"connection", b"close")]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            # The request that was begun is not answered again.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def protocol(connections: Connections) -> type[Connection]:
    """The protocol of these connections, for uvicorn, which makes one object of it a connection."""
    return type("Connection", (Connection,), {"among": connections})
