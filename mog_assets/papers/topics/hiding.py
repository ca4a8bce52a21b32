"""Hide modules that a library imports and can do without: it starts faster."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any


class _MissingModules:
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
    finder: Any = _MissingModules(modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
