"""Run the HTTP server until it is told to stop, and let what runs finish."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

import uvicorn
from starlette.types import ASGIApp
from threadpoolctl import threadpool_limits

from mog_assets.resources import tracing
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.printable import escaped
from mog_assets.serve.connections import Connections, protocol
from mog_assets.serve.descriptors import BATCH
from mog_assets.serve.limits import HEAD_BYTES
from mog_assets.serve.problems import log

# Connections that the system keeps until they are accepted.
_BACKLOG = 1024
# For the last answers to be sent when the time to finish is over.
_LAST_SECONDS = 2
_KEEP_ALIVE_SECONDS = 5
_SWITCH_SECONDS = 0.0005


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ConfigError(f"--host: expected the name or address of this machine, got {host!r}") from error
    # asyncio sends small packets at once only if the protocol is named; otherwise each response waits 40 ms.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise MogError(f"cannot listen on {host} port {port}: {error.strerror}: choose another with --port") from error
    opened.setblocking(False)
    return opened


def url_of(opened: socket.socket) -> str:
    """Return the URL of a socket."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    app: ASGIApp,
    connections: Connections,
    opened: socket.socket,
    ready: Callable[[], None],
    websockets: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT; then no request is accepted any more, and those that run have a time to finish.

    Call it in the main thread, which receives signals. `ready` is called when requests are answered.
    """
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=protocol(connections),
        ws="auto" if websockets else "none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BATCH,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(connections.options.drain) + _LAST_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    # A question takes Python's lock some hundred times. While new artefacts are opened, it waits so long each time.
    sys.setswitchinterval(_SWITCH_SECONDS)
    server = _Server(config, connections, ready)
    # uvicorn raises the signal again when it has ended, for the handlers that were there before.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    # As many searches as processors run side by side: threads of BLAS beside them wait, which takes processors, too.
    with threadpool_limits(1, user_api="blas"):
        server.run(sockets=[opened])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, connections: Connections, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._connections, self._ready = connections, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._connections.failed)
        await super().startup(sockets)
        for opened in sockets or ():
            # asyncio takes as many connections at a time as it lets wait: few at a time, and many may wait.
            opened.listen(_BACKLOG)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping: running requests are finished, no others are accepted")
        asyncio.get_running_loop().call_later(self._connections.options.drain, self._connections.end)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._connections.stopping.set()
        super().handle_exit(sig, frame)


class _Log(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """Lose a line that cannot be written (a full disk): to tell so would fail, too."""


class _Json(logging.Formatter):
    """A line of JSON for each record: time, level, message, what is known of the request, and its trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        row = {"time": moment, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            row["error"] = escaped(self.formatException(record.exc_info))
        return json.dumps({**row, **getattr(record, "fields", {}), **tracing.ids()})


def log_to_stderr(form: str = "text") -> None:
    """Write the log to standard error, a line for each request, and warnings of libraries.

    Args:
        form: `text`, or `json`: an object on each line.

    Libraries log here and nowhere else: their own handlers import modules while they handle an error, which fails, and
    ends the server, when too many files are open.
    """
    handler = _Log(sys.stderr)
    text = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")
    handler.setFormatter(_Json() if form == "json" else text)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    log.setLevel(logging.INFO)
