"""Named points of every write, at which tests interrupt or kill the process. Otherwise they do nothing."""

from __future__ import annotations

from collections.abc import Callable

# All points in the order of a write, with what has just happened there; plugins add theirs.
POINTS = {
    "vectors cached": "a batch of vectors was committed to the encoder's cache",
    "file written": "a file is complete under its temporary name",
    "file moved": "the file has its final name; no manifest names it yet",
    "manifest written": "the manifest is complete under its temporary name",
    "manifest moved": "the new artefact is current; files of the old one stay for an hour",
    "set written": "the set of artefacts that belong together is complete under its temporary name",
    "set moved": "the set is what readers open from now on",
    "swept": "files that no manifest has named for an hour were deleted",
    "manifest removed": "the manifest of an artefact that is being removed was deleted; its files still exist",
}

_interrupt: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Signal that a write has reached a point."""
    assert point in POINTS, point
    if _interrupt is not None:
        _interrupt(point)


def interrupt_with(function: Callable[[str], None] | None) -> None:
    """Call a function at every point of every write of this process; None stops that."""
    global _interrupt
    _interrupt = function
