"""Tell every step of answering while it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from mog_assets.answering.answerers import Means, RetrievedPassages
from mog_assets.answering.roles import Passage, Reply, Roles

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


def watched(means: Means, told: Told) -> Means:
    """The same means, which tell each step when it is done.

    Steps are `passages` (`query`, `passages`), `route`, `thought`, `extract`, `answer`, `grade`, `rewrite`; a step of a
    reader has its `role`, `failure` if it failed, and `certain` if the reader says how sure it is of an answer.
    """

    def retrieve(
        queries: Sequence[str], k: int, topics: bool, read: Sequence[Sequence[Passage]] = ()
    ) -> Sequence[RetrievedPassages]:
        found = means.retrieve(queries, k, topics, read)
        for query, own in zip(queries, found, strict=True):
            told("passages", {"query": query, "passages": own.passages})
        return found

    return replace(means, roles=cast(Roles, _Watched(means.roles, told)), retrieve=retrieve)


class _Watched:
    """Roles that tell what they reply."""

    def __init__(self, roles: Roles, told: Told) -> None:
        self._roles, self._told = roles, told

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._roles, name)
        if name not in _STEPS:
            return found
        step, what = _STEPS[name]

        def call(*args: Any, **options: Any) -> Reply[Any]:
            reply: Reply[Any] = found(*args, **options)
            said = {"role": name, what: reply.value, **({"failure": reply.failure} if reply.failure else {})}
            self._told(step, said | ({"certain": reply.span.certain} if reply.span else {}))
            return reply

        return call
