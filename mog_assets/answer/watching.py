"""Tell every step of answering while it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from mog_assets.answer.answerers import Means, RetrievedPassages
from mog_assets.answer.roles import ANSWER_STEP, Passage, Reply, Role, Roles
from mog_assets.resources import tracing

T = TypeVar("T")

Told = Callable[[str, dict[str, Any]], object]
"""Called with the name of a step and what it gave."""


def watched(means: Means, tell: Told) -> Means:
    """Return the same means, which tell each step when it is done.

    Where an answer is written piece by piece, `ask.answer` tells these as `token` besides.

    Steps are `passages` (`query`, `passages`), `answer`, and those of the roles of a way, see `Role.step`; a step of a
    reader has its `role`, a `title` for people, `failure` if it failed, and `certain` if the reader says how sure it is
    of an answer.
    """

    def retrieve(
        queries: Sequence[str], k: int, limit: str, read: Sequence[Sequence[Passage]] = ()
    ) -> Sequence[RetrievedPassages]:
        results = means.retrieve(queries, k, limit, read)
        for query, result in zip(queries, results, strict=True):
            tell("passages", {"query": query, "passages": result.passages})
        return results

    def told(role: str, step: tuple[str, str, str], call: Callable[[], Reply[T]]) -> Reply[T]:
        reply = call()
        name, what, title = step
        said = {"role": role, "title": title, what: reply.value}
        said |= {"failure": reply.failure} if reply.failure else {}
        tell(name, said | ({"certain": reply.span.certain} if reply.span else {}))
        return reply

    return replace(means, roles=cast(Roles, _Calls(means.roles, told)), retrieve=retrieve)


def traced(roles: Roles) -> Roles:
    """The same roles, each of whose calls is a span, if anybody collects them."""

    def spanned(role: str, step: tuple[str, str, str], call: Callable[[], Reply[T]]) -> Reply[T]:
        with tracing.span(role, reader=roles.reader):
            reply = call()
            tracing.note(failed=True if reply.failure else None)
            return reply

    return cast(Roles, _Calls(roles, spanned))


class _Calls:
    """Roles whose calls a function makes, given the name of the role, its step, and the call."""

    def __init__(self, roles: Roles, make: Callable[..., Reply[Any]]) -> None:
        self._roles, self._make = roles, make

    def __getattr__(self, name: str) -> Any:
        return getattr(self._roles, name)

    def answer(self, *read: Any) -> Reply[str]:
        return self._make("answer", ANSWER_STEP, partial(self._roles.answer, *read))

    def play(self, role: Role[T], *read: Any) -> Reply[T]:
        return self._make(role.name, role.step, partial(self._roles.play, role, *read))
