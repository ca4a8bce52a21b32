"""Progress of long work: bars in a terminal, otherwise a line when it starts and ends, and every 30 seconds between.

Lines go to the log of whoever works, and to standard error of a command that has no terminal.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from threading import Event, Thread
from typing import Any

from mog_assets.resources.printable import escaped

Advance = Callable[[int], None]
Log = Callable[[str], Any]

# Seconds from the start of work to the first line that says how far it is, and from each line to the next.
_FIRST, _EVERY = 5.0, 30.0
# What this process has stored beside artefacts, in whatever state it ends.
stored_counts = Counter[str]()


class ProgressDisplay:
    """Destinations of progress: bars in a terminal, if there are any, and whether lines go to standard error."""

    bars: Any = None
    lines = False


shown = ProgressDisplay()
_tracks: list[_Track] = []


class _Track:
    """Counts the items of a piece of work that are done."""

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what = total, what
        self.done, self._first, self._started = 0, 0, 0.0

    def __str__(self) -> str:
        state = f"{self.what}: {self.done:,} of {self.total:,}"
        if not self._first < self.done < self.total:
            return state
        rest = (time.monotonic() - self._started) / (self.done - self._first) * (self.total - self.done)
        return f"{state}, about {duration(rest)} left"

    def advance(self, n: int) -> None:
        """Count what is done; the speed is that after the first time: before, models load, and old items are found."""
        if not self.done:
            self._first, self._started = n, time.monotonic()
        self.done += n


def duration(seconds: float) -> str:
    """Return seconds in words: `0.4 s`, `42 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def note(text: str) -> None:
    """Print a line on standard error, above the bars if there are any."""
    # Work does not fail because nobody can be told of it.
    with suppress(OSError, ValueError):
        if shown.bars is not None:
            shown.bars.console.print(text)
        else:
            print(escaped(text), file=sys.stderr, flush=True)  # noqa: T201  # Nothing else in this process prints.


def tell(text: str, log: Log | None = None) -> None:
    """Write a line to a log, and to standard error if progress is displayed there as lines."""
    if log:
        log(text)
    if shown.lines:
        note(text)


@contextmanager
def followed(what: str, log: Log | None = None) -> Iterator[None]:
    """Tell every 30 seconds how far a piece of work is: its innermost `track`, or else for how long it has run."""
    if log is None and not shown.lines:
        yield
        return
    started, ended = time.monotonic(), Event()

    def follow() -> None:
        for seconds in chain([_FIRST], repeat(_EVERY)):
            if ended.wait(seconds):
                return
            innermost = _tracks[-1:]
            tell(str(innermost[0]) if innermost else f"{what}: {duration(time.monotonic() - started)} so far", log)

    follower = Thread(target=follow, name="mog-progress", daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join()


@contextmanager
def stage(what: str, why: str, log: Log | None = None) -> Iterator[None]:
    """Do as `followed`; tell also when the work starts and why, and in how many seconds it was done or failed."""
    started, outcome = time.monotonic(), "failed after"
    tell(f"{what}: started ({why})", log)
    try:
        with followed(what, log):
            yield
        outcome = "done in"
    finally:
        tell(f"{what}: {outcome} {duration(time.monotonic() - started)}", log)


@contextmanager
def track(total: int, what: str) -> Iterator[Advance]:
    """Count `total` items of work; call the yielded function with the number done since the last call."""
    counted, console = _Track(total, what), shown.bars
    task = None if console is None else console.add_task(what, total=total)

    def advance(n: int) -> None:
        counted.advance(n)
        if console is not None:
            console.advance(task, n)

    _tracks.append(counted)
    try:
        yield advance
    finally:
        _tracks.remove(counted)
        if console is not None:
            console.remove_task(task)
