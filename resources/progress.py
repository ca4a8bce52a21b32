"""Progress of long work: bars in a terminal on request, otherwise a log line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from resources.terminal import escaped

Advance = Callable[[int], None]
Log = Callable[[str], Any]

_LOG_SECONDS = 5.0
_console: Any = None


@contextmanager
def bars() -> Iterator[None]:
    """Within this context `track` shows bars on standard error."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from resources.console import EscapedConsole

    global _console
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=EscapedConsole(stderr=True), transient=True) as progress:
        _console = progress
        try:
            yield
        finally:
            _console = None


def clear() -> None:
    """Remove the bars and restore the terminal."""
    # Without a terminal there are no bars to remove, and it would write an empty line.
    if _console is not None and _console.console.is_terminal:
        _console.stop()


def note(text: str) -> None:
    """Print a line on standard error, above the bars if there are any."""
    if _console is not None:
        _console.console.print(text)
    else:
        print(escaped(text), file=sys.stderr, flush=True)  # noqa: T201  # Nothing else in this process prints.


@contextmanager
def track(total: int, what: str, log: Log | None = None) -> Iterator[Advance]:
    """Report progress on `total` items; call the yielded function with the number done since the last call."""
    if _console is not None:
        task = _console.add_task(what, total=total)
        try:
            yield lambda n: _console.advance(task, n)
        finally:
            _console.remove_task(task)
        return
    done, said = 0, time.monotonic()

    def advance(n: int) -> None:
        nonlocal done, said
        done += n
        if log and time.monotonic() - said >= _LOG_SECONDS:
            said = time.monotonic()
            log(f"{what}: {done} of {total}")

    yield advance
