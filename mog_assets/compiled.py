"""What makes libraries start faster: compiled functions are kept on disk, and what is not needed is not imported."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any


def keep(*functions: Any) -> None:
    """Let numba cache compiled functions next to their source, or in the user's cache.

    If neither is writable, every process compiles them.

    Args:
        functions: Results of `numba.njit`; anything else is ignored.
    """
    for function in functions:
        with suppress(RuntimeError):
            if hasattr(function, "enable_caching"):
                function.enable_caching()


class _Hidden:
    """Finds no module of these names: what `sys.meta_path` asks first."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def hidden(*modules: str) -> Iterator[None]:
    """Make modules look as if they were not installed, for a library that imports them and can do without.

    What has been imported stays. Other threads do not find the modules either: this is for a process of its own.

    Args:
        modules: Names of top-level modules.
    """
    finder: Any = _Hidden(modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
