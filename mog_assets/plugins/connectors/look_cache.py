"""What looks at a source gave, kept for a while: sensors look often."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

# Seconds that a process keeps what a look at a source gave, if each look costs the source work: sensors look often.
FRESH_SECONDS = 600.0
Look = TypeVar("Look")


class LookCache(Generic[Look]):
    """Cache of what looks at a source gave.

    Args:
        look: Looks at an address.
    """

    def __init__(self, look: Callable[[str], Look]) -> None:
        self._look, self._alone = look, Lock()
        self._looks: dict[str, tuple[float, Look]] = {}

    def __call__(self, address: str, seconds: float | None = None) -> Look:
        """Return what a look at an address gave, so many seconds ago at most, by default `FRESH_SECONDS`."""
        seconds = FRESH_SECONDS if seconds is None else seconds
        with self._alone:
            at, cached = self._looks.get(address, (0.0, None))
            if cached is None or time.monotonic() - at > seconds:
                self._looks.pop(address, None)
                cached = self._look(address)
                self._looks[address] = time.monotonic(), cached
            return cached
