"""What `dagster dev` starts, with a guard in front of the web server: the one port of all that is open.

The code server is reached by a socket file. Run it as
`python -m mog_assets.serve.webserver DESCRIPTOR HOST URL [WORKSPACE]`.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import dagster as dg
import yaml
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.interrupts import setup_interrupt_handlers
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.types import ASGIApp, Receive, Scope, Send

from mog_assets.build.records import end_killed
from mog_assets.resources.errors import MogError
from mog_assets.serve import access, descriptors, server
from mog_assets.serve.connections import Connections
from mog_assets.serve.limits import ServerOptions
from mog_assets.serve.observed import Metrics
from mog_assets.serve.ui_guard import UiGuard

_POLL_MS = 2000
_STATEMENT_MS, _RECYCLE_SECONDS, _POOL_OVERFLOW = 15_000, 3600, 20
# A launch names each of its partitions.
_BODY_BYTES = 16 << 20
_DRAIN_SECONDS = 1.0
# What the code server loads, and what it is called.
_MODULE, _LOCATION = "mog_assets.build.location", "mog-assets"
# Between looks whether it has started.
_PAUSE = 0.1

_log = logging.getLogger("dagster.mog")


def main(descriptor: int, host: str, public_url: str, workspace: Path | None) -> int:
    """Serve the UI of the instance in DAGSTER_HOME until SIGINT or SIGTERM arrives or a process that it needs ends.

    `workspace` names code locations that others run, with the daemon; None starts the code server and the daemon.
    """
    # As in `dagster dev`, SIGTERM raises KeyboardInterrupt until the server handles signals.
    setup_interrupt_handlers()
    configure_loggers(formatter="colored", log_level="INFO")
    key, most = access.key_for(host), descriptors.reserve(descriptors.CONNECTIONS)
    options = ServerOptions(
        key=key,
        hosts=access.names_of(host, key),
        public_url=public_url,
        drain=_DRAIN_SECONDS,
        body_bytes=_BODY_BYTES,
        budget=_BODY_BYTES,
        send_seconds=60.0,
        connections=most,
        connections_per_address=most,
    )
    connections = Connections(options, Metrics())
    opened = socket.socket(fileno=descriptor)
    started: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        instance = stack.enter_context(dg.DagsterInstance.get())
        instance.optimize_for_webserver(_STATEMENT_MS, _RECYCLE_SECONDS, _POOL_OVERFLOW)
        if workspace is None:
            # The sensor, which does so while this runs, may be switched off.
            end_killed(instance)
            workspace, code = _code_server(instance, stack)
            command = [sys.executable, "-m", "dagster._daemon", "run", "--workspace", str(workspace)]
            started += [code, _child(command, stack)]
            for name, process in zip(("code server", "daemon"), started, strict=True):
                Thread(target=_stop_with, args=(name, process, connections.stopping), daemon=True).start()
        # Before the others are terminated: they have not ended by themselves.
        stack.callback(connections.stopping.set)
        target = WorkspaceFileTarget(paths=[str(workspace)])
        context = stack.enter_context(WorkspaceProcessContext(instance, target, version=dg.__version__))
        app = create_app_from_workspace_process_context(context, options.public[2], live_data_poll_rate=_POLL_MS)
        server.serve(_guarded(app, options), connections, opened, lambda: None, websockets=True)
        return 1 if any(process.poll() for process in started) else 0


def _code_server(instance: dg.DagsterInstance, stack: ExitStack) -> tuple[Path, subprocess.Popen[bytes]]:
    """Start what loads the graph, and return the workspace that names its socket file, for as long as `stack` is open.

    Web server and daemon ask each second who it is. With an identity of its own it answers by itself, which takes a
    quarter of what asking the process behind it does; the daemon sees within a minute what a reload has changed.
    """
    folder = Path(stack.enter_context(TemporaryDirectory()))
    path, workspace = folder / "code", folder / "workspace.yaml"
    options = {
        "--socket": str(path),
        "--location-name": _LOCATION,
        "--module-name": _MODULE,
        "--working-directory": os.getcwd(),
        "--fixed-server-id": folder.name,
        "--log-level": "warning",
        "--startup-timeout": str(instance.code_server_process_startup_timeout),
        "--instance-ref": dg.serialize_value(instance.get_ref()),
    }
    arguments = [part for option in options.items() for part in option]
    command = [sys.executable, "-m", "dagster", "code-server", "start", "--inject-env-vars-from-instance", *arguments]
    process = _child(command, stack)
    while not _listens(path):
        if (code := process.poll()) is not None:
            raise MogError(f"Dagster's code server ended with code {code} before it had loaded the graph: see above")
        time.sleep(_PAUSE)
    server = {"location_name": _LOCATION, "host": "localhost", "socket": str(path)}
    workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}), encoding="utf-8")
    return workspace, process


def _child(command: list[str], stack: ExitStack) -> subprocess.Popen[bytes]:
    """Start a process that is terminated when `stack` is closed."""
    process = subprocess.Popen(command)
    stack.callback(process.terminate)
    return process


def _listens(path: Path) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        return True
    return False


def _guarded(app: ASGIApp, options: ServerOptions) -> ASGIApp:
    prefix = options.public[2]

    async def below(scope: Scope, receive: Receive, send: Send) -> None:
        # A proxy sends the path with the prefix, or takes it off.
        if prefix and "path" in scope and not f"{scope['path']}/".startswith(f"{prefix}/"):
            scope = {**scope, "path": prefix + scope["path"], "raw_path": prefix.encode() + scope["raw_path"]}
        await app(scope, receive, send)

    return UiGuard(below, options)


def _stop_with(name: str, process: subprocess.Popen[bytes], stopping: Event) -> None:
    """Stop this process when another ends by itself: without it nothing that is clicked is ever run."""
    code = process.wait()
    if not stopping.is_set():
        _log.error("Dagster's %s ended with code %d: stopping", name, code)
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]) if sys.argv[4:] else None))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except MogError as error:
        sys.exit(f"mog: {error}")
