"""Searches that wait at the same time and ask for the same are done together.

Encoding, comparing and ordering several questions at once takes little more than one of them: when 32 clients ask, a
server answers twice as many (benchmarks/README.md). A question never waits for others to come.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from mog_assets.serve.limits import Slots

# Most questions that are searched for together.
MOST = 32

Search = Callable[[Sequence[str]], Sequence[Any]]
"""Gives a result for each question."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A question that waits.

    Attributes:
        question: The question.
        key: What it asks for: those with equal keys are searched for together.
        search: Finds the results; equal for equal keys.
        finish: Makes of a result what the caller gets.
        future: What the caller gets.
    """

    question: str
    key: Hashable
    search: Search
    finish: Callable[[Any], Any]
    future: Future[Any] = field(default_factory=Future)


class Together:
    """Searches in the threads and the queue of `slots`.

    Args:
        slots: Where work is done.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots, self._lock = slots, Lock()
        self._waiting: list[_Waiting] = []

    async def run(self, question: str, key: Hashable, search: Search, finish: Callable[[Any], Any]) -> Any:
        """The result for a question.

        Args:
            question: The question.
            key: What is asked for, whatever the question.
            search: Finds the results of several questions that ask for it.
            finish: Makes of a result what is returned, in a thread too.

        Raises:
            Problem: see `Slots.run`.
        """
        waiting = _Waiting(question, key, search, finish)
        with self._lock:
            self._waiting.append(waiting)
        try:
            # As many turns as questions: those whose question went with others find nothing to do.
            self._slots.enter(waiting.future, self._turn)
        except Exception:
            waiting.future.cancel()
            raise
        return await self._slots.wait(waiting.future)

    def _turn(self) -> None:
        taken: list[_Waiting] = []
        with self._lock:
            pending = [each for each in self._waiting if not each.future.cancelled()]
            for each in pending:
                alike = len(taken) < MOST and (not taken or each.key == taken[0].key)
                if alike and each.future.set_running_or_notify_cancel():
                    taken.append(each)
            self._waiting = [each for each in pending if not (each.future.running() or each.future.done())]
        if taken:
            _answer(taken)


def _answer(taken: Sequence[_Waiting]) -> None:
    try:
        results = taken[0].search([each.question for each in taken])
    except Exception as error:
        if len(taken) == 1:
            taken[0].future.set_exception(error)
            return
        # Whose fault it is shows when each is asked alone.
        for each in taken:
            _answer([each])
        return
    for each, result in zip(taken, results, strict=True):
        try:
            each.future.set_result(each.finish(result))
        except Exception as error:
            each.future.set_exception(error)
