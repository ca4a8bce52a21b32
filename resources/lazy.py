"""What is computed once: `remembered`, and `cached_property`, by which questions do not wait for each other.

Before Python 3.12 that of the library has one lock for all instances of a class: while one thread computes a value,
every other waits, whatever it is of. Two threads that search then take as long as one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

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


if sys.version_info >= (3, 12):
    from functools import cached_property
else:
    from typing import Generic, Self, overload

    T = TypeVar("T")

    class cached_property(Generic[T]):  # noqa: N801 - it stands for the library's
        """A property that is computed once; twice, if two threads ask for that of one instance at the same time."""

        def __init__(self, function: Callable[[Any], T]) -> None:
            self._function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> T: ...
        def __get__(self, instance: object | None, owner: type) -> Self | T:
            """The value, which hides this in the instance from now on."""
            if instance is None:
                return self
            value: T = self._function(instance)
            instance.__dict__[self._name] = value
            return value


__all__ = ["cached_property", "remembered"]
