"""Run Dagster's UI as a child process of `mog ui`, and end it with all that it started.

`mog ui` becomes `python -I ui.py HOME DESCRIPTOR HOST URL [WORKSPACE]`, which loads the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

# Seconds for Dagster's processes to shut down, and for the system to remove killed ones.
_END_SECONDS, _KILL_SECONDS = 4.0, 2.0
_PR_SET_PDEATHSIG = 1


def serve(home: str, descriptor: int, *arguments: str) -> int:
    """Serve the UI of a Dagster home until it exits or SIGINT, SIGTERM or SIGHUP arrives; return the exit code.

    All processes that the web server started are ended too. Call it in the main thread, which receives signals.

    Args:
        home: The folder of the Dagster instance.
        descriptor: Of the socket on which the web server listens.
        arguments: Further ones of `mog_assets.serve.webserver`.
    """
    happened: SimpleQueue[int] = SimpleQueue()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, _: happened.put(number))
    # In its own session, so that a signal to its group reaches each of Dagster's processes exactly once.
    process = subprocess.Popen(
        [sys.executable, "-m", "mog_assets.serve.webserver", str(descriptor), *arguments],
        # On a busy machine a run takes longer than a minute to begin.
        env={"DAGSTER_GRPC_TIMEOUT_SECONDS": "300", **os.environ, "DAGSTER_HOME": home},
        pass_fds=[descriptor],
        start_new_session=True,
        preexec_fn=_end_with(os.getpid()),
    )

    def wait() -> None:
        process.wait()
        happened.put(0)

    threading.Thread(target=wait, daemon=True).start()
    number = happened.get()
    _end_group(process.pid)
    return 128 + number if number else process.wait()


def _end_group(group: int) -> None:
    """End a process group with SIGINT, like Ctrl-C; then kill those that take too long with SIGKILL."""
    # macOS refuses to signal a group in which all processes have ended.
    with suppress(ProcessLookupError, PermissionError):
        for number, seconds in ((signal.SIGINT, _END_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
            os.killpg(group, number)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                time.sleep(0.05)
                os.killpg(group, 0)


def _end_with(parent: int) -> Callable[[], None] | None:
    """Return what the child calls before exec, so that it gets SIGTERM when its parent is killed; Linux only."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent died before the signal was requested.
        if os.getppid() != parent:
            os._exit(1)

    return ask


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
