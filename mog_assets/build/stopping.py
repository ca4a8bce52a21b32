"""Stop a long command on Ctrl-C (SIGINT) or SIGTERM within seconds, whatever it is doing, with a one-line message.

A write to the store may be interrupted at any point: readers see the old artefact or the new one, and the next run
continues from there, so nothing must be rolled back. The work runs in its own thread while the main thread waits for
signals: no library sees a signal as an exception that it could swallow or misinterpret.
"""

from __future__ import annotations

import contextvars
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from mog_assets.resources import progress
from mog_assets.resources.processes import kill_children

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Total seconds for the functions registered with `on_stop`.
_TIDY_SECONDS = 2.0
# After so many more the process ends, whatever hangs.
_EXIT_SECONDS = 1.0
# A signal wakes the main thread only if the kernel chose that thread to receive it.
_LOOK_SECONDS = 0.25

_on_stop: list[Callable[[], object]] = []


@contextmanager
def on_stop(tidy: Callable[[], object]) -> Iterator[None]:
    """Call a function when a signal ends the process inside this context.

    It runs in another thread than the work, which continues meanwhile, and may be cut off after two seconds.
    """
    _on_stop.append(tidy)
    try:
        yield
    finally:
        _on_stop.remove(tidy)


def stoppable(work: Callable[[], None], home: Path, command: str, then: str = "continues from there") -> None:
    """Do work that SIGINT and SIGTERM stop: the process ends its child processes and exits with 130 or 143.

    A second signal skips the remaining cleanup. Outside the main thread, which alone receives signals, the work is done
    without signal handling.

    Args:
        work: What to do; its exceptions are raised here.
        home: The home folder, in which finished artefacts are counted.
        command: The command that continues the work.
        then: What it does with what is there.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return
    # Dagster may redirect the standard streams during the work.
    terminal = os.dup(2)
    happened: SimpleQueue[int] = SimpleQueue()
    raised: list[BaseException] = []
    started = time.time()

    def do() -> None:
        try:
            work()
        except BaseException as error:  # To be raised in the main thread.
            raised.append(error)
        happened.put(0)

    def note(number: int, frame: FrameType | None) -> None:
        happened.put(number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        threading.Thread(target=contextvars.copy_context().run, args=(do,), name="work", daemon=True).start()
        number = _next(happened)
        if number:
            counts: list[int] = []
            count = threading.Thread(target=lambda: counts.append(_artefacts_since(started, home)), daemon=True)
            count.start()
            _tidy(happened)
            # Of a large store on a slow disk not all is looked at.
            count.join(_EXIT_SECONDS)
            _exit(number, terminal, counts, f"`{command}` {then}")
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        os.close(terminal)
    if raised:
        raise raised[0]


def _next(happened: SimpleQueue[int]) -> int:
    """Return the next signal, or 0 when the work is done."""
    while True:
        with suppress(Empty):
            return happened.get(timeout=_LOOK_SECONDS)


def _tidy(happened: SimpleQueue[int]) -> None:
    """Call the registered functions until they are done, the time is up, or another signal arrives."""

    def tidy() -> None:
        for function in reversed(_on_stop.copy()):
            # A failure during cleanup must not keep the process from ending.
            with suppress(Exception):
                function()
        happened.put(0)

    threading.Thread(target=tidy, name="tidy", daemon=True).start()
    with suppress(Empty):
        happened.get(timeout=_TIDY_SECONDS)


def _artefacts_since(started: float, home: Path) -> int:
    """Return number of artefacts completed since then."""
    count = 0
    for manifest in (home / "store").rglob("manifest.json"):
        with suppress(OSError, ValueError):
            # Without a recipe it is an earlier artefact, marked to be rebuilt.
            count += manifest.stat().st_mtime >= started and bool(json.loads(manifest.read_bytes())["recipe"])
    return count


def _exit(number: int, terminal: int, artefacts: list[int], then: str) -> None:
    counts = {"artefacts": sum(artefacts), **progress.stored_counts}
    parts = [f"{n:,} {what.removesuffix('s') if n == 1 else what}" for what, n in counts.items() if n]
    done = f"{', '.join(parts)} finished and kept" if parts else "nothing was finished yet"
    if not artefacts:
        done = ", ".join([*parts, "what was finished is kept"])
    line = f"mog: stopped by {signal.Signals(number).name}: {done}; {then}\n"
    # A closed output must not change the exit code.
    with suppress(OSError):
        os.write(terminal, line.encode())
    last = threading.Timer(_EXIT_SECONDS, os._exit, (128 + number,))
    last.daemon = True
    last.start()
    # Last, so that the work cannot react to their end.
    kill_children()
    os._exit(128 + number)
