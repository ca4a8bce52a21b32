"""Child processes that end with their parent, however it ends, and do not receive a terminal's Ctrl-C; and cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker, util
from multiprocessing.synchronize import SemLock

# A forked child would inherit torch's and Dagster's threads in an unknown state.
SPAWN = multiprocessing.get_context("spawn")


def cores() -> int:
    """Number of processor cores that this process may use."""
    # macOS and Windows cannot restrict a process to some of them.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes started here do not receive SIGINT, which a terminal sends to all: their parent ends them."""
    # If started inside, it would unblock the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Make this process end when its parent has ended. Call first in a child process."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def kill_children() -> None:
    """Kill the child processes of this one and release the semaphores shared with them, before `os._exit`."""
    for child in multiprocessing.active_children():
        child.kill()
    # At a regular exit Python does this; otherwise its resource tracker does, with a warning for each.
    for finalizer in list(util._finalizer_registry.values()):  # type: ignore[attr-defined]
        if getattr(finalizer, "_callback", None) is SemLock._cleanup:  # type: ignore[attr-defined]
            finalizer()
