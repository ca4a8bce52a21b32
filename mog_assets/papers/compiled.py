"""Keep compiled functions on disk, so that processes start faster."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def keep(*functions: Any) -> None:
    """Let numba cache compiled functions next to their source, or in the user's cache.

    If neither is writable, every process compiles them.
    """
    for function in functions:
        with suppress(RuntimeError):
            if hasattr(function, "enable_caching"):
                function.enable_caching()
