"""Tell every step of answering while it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from mog_assets.answering.answerers import Means, RetrievedPassages
from mog_assets.answering.roles import Passage, Reply, Roles
from mog_assets.resources import tracing

Told = Callable[[str, dict[str, Any]], object]
"""Called with the name of a step and what it gave."""

# Name of the step, and of what it gives, by role.
_STEPS = {
    "answer": ("answer", "text"),
    "reduce": ("answer", "text"),
    "extract": ("extract", "text"),
    "think": ("thought", "text"),
    "rewrite": ("rewrite", "query"),
    "classify": ("route", "route"),
    "grade_usefulness": ("grade", "verdict"),
    "grade_support": ("grade", "verdict"),
}


def watched(means: Means, tell: Told) -> Means:
    """The same means, which tell each step when it is done.

    Where an answer is written piece by piece, `ask.answer` tells these as `token` besides.

    Steps are `passages` (`query`, `passages`), `route`, `thought`, `extract`, `answer`, `grade`, `rewrite`; a step of a
    reader has its `role`, `failure` if it failed, and `certain` if the reader says how sure it is of an answer.
    """

    def retrieve(
        queries: Sequence[str], k: int, limit: str, read: Sequence[Sequence[Passage]] = ()
    ) -> Sequence[RetrievedPassages]:
        results = means.retrieve(queries, k, limit, read)
        for query, result in zip(queries, results, strict=True):
            tell("passages", {"query": query, "passages": result.passages})
        return results

    return replace(means, roles=cast(Roles, _Watched(means.roles, tell)), retrieve=retrieve)


class _Watched:
    """Roles that tell what they reply."""

    def __init__(self, roles: Roles, tell: Told) -> None:
        self._roles, self._tell = roles, tell

    def __getattr__(self, name: str) -> Any:
        role = getattr(self._roles, name)
        if name not in _STEPS:
            return role
        step, what = _STEPS[name]

        def call(*args: Any, **options: Any) -> Reply[Any]:
            reply: Reply[Any] = role(*args, **options)
            said = {"role": name, what: reply.value, **({"failure": reply.failure} if reply.failure else {})}
            self._tell(step, said | ({"certain": reply.span.certain} if reply.span else {}))
            return reply

        return call


def traced(roles: Roles) -> Roles:
    """The same roles, each of whose calls is a span, if anybody collects them."""
    return cast(Roles, _Traced(roles))


class _Traced:
    """Roles whose calls are spans."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    def __getattr__(self, name: str) -> Any:
        role = getattr(self._roles, name)
        if name not in _STEPS:
            return role

        def call(*args: Any, **options: Any) -> Reply[Any]:
            with tracing.span(name, reader=self._roles.reader):
                reply: Reply[Any] = role(*args, **options)
                tracing.note(failed=True if reply.failure else None)
                return reply

        return call
