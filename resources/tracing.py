"""Spans: what a question, or a run, spends its time on. Only what is registered in `registry.TRACERS` collects them.

Spans have names, numbers and settings; texts of questions and documents are in none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, TypeVar

from mog_assets.resources.registry import TRACERS

T = TypeVar("T")

_NONE: AbstractContextManager[None] = nullcontext()


@cache
def _registered() -> Any:
    return next(iter(TRACERS.values()), None)


def _tracer() -> Any:
    # Nobody collects spans before the package that makes them is imported.
    tracer = _registered()
    return tracer if tracer is not None and tracer.PACKAGE in sys.modules else None


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """Return a part of the work, within that of the caller.

    Args:
        name: What is done.
        attributes: What it is done with; None is left out. They are `mog.NAME`, unless `__` stands for a dot.
    """
    return tracer.span(name, **attributes) if (tracer := _tracer()) else _NONE


def note(**attributes: Any) -> None:
    """Say more of the work that is being done; see `span`."""
    if tracer := _tracer():
        tracer.note(**attributes)


def carried(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function for another thread: what it does there belongs to what is done here."""
    return tracer.carried(function) if (tracer := _tracer()) else function


def headers() -> dict[str, str]:
    """Return what tells an endpoint which trace a request belongs to (`traceparent`)."""
    return tracer.headers() if (tracer := _tracer()) else {}


def ids() -> dict[str, str]:
    """Return the trace and the span of here, as logs have them; empty without one."""
    return tracer.ids() if (tracer := _tracer()) else {}


def within(carrier: Mapping[str, str]) -> AbstractContextManager[None]:
    """Let spans belong to the trace that a caller names (`traceparent` of tags, or of the environment)."""
    return tracer.within(carrier) if (tracer := _tracer()) else _NONE


def start() -> None:
    """Collect spans, if the environment asks for it; raise MogError if that cannot be."""
    if tracer := _registered():
        tracer.start()


def flush() -> None:
    """Send what has been collected: before a process ends."""
    if tracer := _tracer():
        tracer.flush()
