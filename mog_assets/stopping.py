"""How a long command ends on Ctrl-C (SIGINT) or SIGTERM: within seconds, whatever it is doing, with one line.

A write to the store may be cut off at any point: readers see the old artefact or the new one, and the next run
continues from there. So there is nothing to unwind. The work runs in a thread of its own while the main thread waits
for signals: no library sees a signal as an exception that it could swallow or take for another fault.
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

from resources.processes import kill_children

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How long what was registered with `on_stop` may take together.
_TIDY_SECONDS = 2.0

_on_stop: list[Callable[[], object]] = []


@contextmanager
def on_stop(tidy: Callable[[], object]) -> Iterator[None]:
    """Have a function called when a signal ends the process inside this context.

    It runs in another thread than the work, which goes on meanwhile, and may be cut off after two seconds.
    """
    _on_stop.append(tidy)
    try:
        yield
    finally:
        _on_stop.remove(tidy)


def stoppable(work: Callable[[], None], home: Path, command: str) -> None:
    """Do some work that SIGINT and SIGTERM end: the process exits with 130 or 143, its child processes ended.

    A second signal skips what is still being tidied. Outside the main thread, which alone receives signals, the work is
    done and no signal is handled.

    Args:
        work: What to do; its exceptions are raised here.
        home: The home folder, in which artefacts are counted that were made meanwhile.
        command: What continues the work when it is run again.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return
    # Dagster may redirect the standard streams while the work goes on.
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
        number = happened.get()
        if number:
            _tidy(happened)
            _exit(number, terminal, _made_since(started, home), command)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        os.close(terminal)
    if raised:
        raise raised[0]


def _tidy(happened: SimpleQueue[int]) -> None:
    """Call what is registered, until it is done, the time is up, or another signal comes."""

    def tidy() -> None:
        for function in reversed(_on_stop.copy()):
            # Whatever fails here would have been done better, and must not keep the process from ending.
            with suppress(Exception):
                function()
        happened.put(0)

    threading.Thread(target=tidy, name="tidy", daemon=True).start()
    with suppress(Empty):
        happened.get(timeout=_TIDY_SECONDS)


def _made_since(started: float, home: Path) -> int:
    """How many artefacts were completed since then."""
    made = 0
    for manifest in (home / "store").rglob("manifest.json"):
        with suppress(OSError, ValueError):
            # Without a recipe it is an earlier artefact, marked to be made again.
            made += manifest.stat().st_mtime >= started and bool(json.loads(manifest.read_bytes())["recipe"])
    return made


def _exit(number: int, terminal: int, made: int, command: str) -> None:
    done = "nothing was finished yet" if not made else f"{made} artefact{'s' * (made > 1)} finished and kept"
    line = f"mog: stopped by {signal.Signals(number).name}: {done}; `{command}` continues from there\n"
    # A reader that is gone must not turn the end into another one.
    with suppress(OSError):
        os.write(terminal, line.encode())
    # Last, so that nothing can be made of their end.
    kill_children()
    os._exit(128 + number)
