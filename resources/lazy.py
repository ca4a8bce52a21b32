"""Values that are computed once: `remembered`, `Recent`, and `cached_property`; questions do not block each other.

Before Python 3.12 that of the library has one lock for all instances of a class: while one thread computes a value,
every other waits, whatever it is of. Two threads that search then take as long as one.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

Value = TypeVar("Value")
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


class Recent(Generic[Value]):
    """Remember the values that were used last, as many as fit into some bytes; for several threads.

    Args:
        most: Bytes of these values, by their `nbytes`; one larger value is remembered all the same.
    """

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of a key; two threads that ask for it at the same time may both compute it."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                remembered_value: Value = self._values[key]
                return remembered_value
        value = compute()
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._bytes += self._values[key].nbytes
            while self._bytes > self._most and len(self._values) > 1:
                self._bytes -= self._values.popitem(last=False)[1].nbytes
        return value


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


__all__ = ["Recent", "cached_property", "remembered"]
