"""What is computed once: `remembered`, and `cached_property`, by which questions do not wait for each other.

Before Python 3.12 that of the library has one lock for all instances of a class: while one thread computes a value,
every other waits, whatever it is of. Two threads that search then take as long as one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def remembered(function: Function) -> Function:
    """Make a function remember its results as long as its first argument lives; the others must be hashable."""

    @wraps(function)
    def remembering(owner: Any, *arguments: Any) -> Any:
        # With the owner, so that results which refer to it go with it.
        known = owner.__dict__.setdefault("_remembered", {})
        key = function, *arguments
        if key not in known:
            known[key] = function(owner, *arguments)
        return known[key]

    return remembering  # type: ignore[return-value]


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - it stands for the library's
        """A property that is computed once; twice, if two threads ask for that of one instance at the same time."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type) -> Any:
            """Return the value, which hides this in the instance from now on."""
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._function(instance)
            return value


__all__ = ["cached_property", "remembered"]
