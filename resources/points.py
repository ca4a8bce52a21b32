"""Named points of every write. Nothing happens there, but for tests, which interrupt or kill the process."""

from __future__ import annotations

from collections.abc import Callable

# All of them, in the order in which a write meets them, and what has just happened there.
POINTS = {
    "vectors cached": "a batch of vectors was committed to the encoder's cache",
    "file written": "a file is complete under its temporary name",
    "file moved": "the file has its name; no manifest names it yet",
    "collection created": "an embedded collection is complete under its temporary name",
    "collection moved": "an embedded collection has its name, and no points yet",
    "points deleted": "a batch of points was deleted from a Qdrant collection",
    "points upserted": "a batch of points was upserted into a Qdrant collection",
    "payloads set": "a batch of payloads was set on points of a Qdrant collection",
    "points flushed": "an embedded collection was flushed; no manifest names its new points yet",
    "manifest written": "the manifest is complete under its temporary name",
    "manifest moved": "the artefact is the new one; files of the old one are still there",
    "swept": "files of the old artefact are gone",
    "damaged removed": "a file that was not as its manifest says is gone, before its artefact is written again",
    "manifest removed": "an artefact that is being removed has no manifest; its files are still there",
}

_interrupt: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Say that a write has come to a point."""
    assert point in POINTS, point
    if _interrupt is not None:
        _interrupt(point)


def interrupt_with(function: Callable[[str], None] | None) -> None:
    """Have a function called at every point of every write of this process; None ends it."""
    global _interrupt
    _interrupt = function
