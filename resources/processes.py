"""Processor cores, and the end of child processes."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import util
from multiprocessing.synchronize import SemLock


def cores() -> int:
    """Return number of processor cores that this process may use."""
    # macOS and Windows cannot restrict a process to some of them.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def kill_children() -> None:
    """Kill the child processes of this one and release the semaphores shared with them, before `os._exit`."""
    for child in multiprocessing.active_children():
        child.kill()
    # At a regular exit Python does this; otherwise its resource tracker does, with a warning for each.
    for finalizer in list(util._finalizer_registry.values()):  # type: ignore[attr-defined]
        if getattr(finalizer, "_callback", None) is SemLock._cleanup:  # type: ignore[attr-defined]
            finalizer()
