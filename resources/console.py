"""The console of tables and progress bars: what is given as text is printed as text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console  # noqa: TID251
from rich.text import Text

from mog_assets.resources.printable import escaped
from mog_assets.resources.progress import shown


class EscapedConsole(Console):
    """A console that escapes every text: it knows no markup, no names of emoji and no control characters.

    Args:
        width: Characters of a line where standard output is no terminal.
        stderr: Whether it writes to standard error.
    """

    def __init__(self, width: int = 200, stderr: bool = False) -> None:
        fixed = None if stderr or sys.stdout.isatty() else width
        super().__init__(width=fixed, stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return what rich makes of a text in any cell, title or line."""
        return super().render_str(escaped(text), **options)


@contextmanager
def displayed() -> Iterator[None]:
    """Show progress on standard error within this context: `track` as bars in a terminal, else `stage` as lines."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = EscapedConsole(stderr=True)
    if not console.is_terminal:
        shown.lines = True
        try:
            yield
        finally:
            shown.lines = False
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        shown.bars = progress
        try:
            yield
        finally:
            shown.bars = None


def clear() -> None:
    """Remove the bars and restore the terminal."""
    if shown.bars is not None:
        shown.bars.stop()
