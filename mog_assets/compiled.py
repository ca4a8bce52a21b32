"""What numba compiles is kept on disk, so that the next process need not compile it again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def keep(*functions: Any) -> None:
    """Have numba keep compiled functions beside their source, or in the user's cache.

    Where neither can be written, every process compiles them, as it would have.

    Args:
        functions: What `numba.njit` gave; anything else is left alone.
    """
    for function in functions:
        with suppress(RuntimeError):
            if hasattr(function, "enable_caching"):
                function.enable_caching()
