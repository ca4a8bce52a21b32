"""Child processes that end with their parent, however it ends, and do not receive a terminal's Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

# A forked child would inherit torch's and Dagster's threads in an unknown state.
SPAWN = multiprocessing.get_context("spawn")


@contextmanager
def deaf_children() -> Iterator[None]:
    """Start processes that do not receive SIGINT, which a terminal sends to all: their parent ends them."""
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
