"""Work in threads with bounded queues, and answers as server-sent events while they are worked on.

Searches that wait at the same time and ask for the same are done together: encoding, comparing and ordering
several questions at once takes little more than one of them. When 32 clients ask, a server answers twice as many
(benchmarks/README.md). A question never waits for others to come.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, TypeVar

from mog_assets.resources import tracing
from mog_assets.resources.errors import MogError
from mog_assets.serve.limits import RETRY_SECONDS
from mog_assets.serve.problems import Problem, log, problem_of

T = TypeVar("T")

# Most questions that are searched for together.
MOST = 32

Happened = Callable[[str, dict[str, Any]], None]

Search = Callable[[Sequence[str]], Sequence[Any]]
"""Gives a result for each question."""


class Abandoned(Exception):
    """Nobody waits for the result any more."""


class Slots:
    """Work in a bounded number of threads with a bounded queue.

    A place is taken until its work has ended, also if nobody waits for it any more.
    """

    def __init__(self, name: str, threads: int, waiting: int, seconds: float) -> None:
        self.name, self.threads, self.waiting, self.seconds = name, threads, waiting, seconds
        self._inside: set[Future[Any]] = set()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._ended: asyncio.Future[None] | None = None

    @property
    def inside(self) -> int:
        """Return how many places are taken."""
        return len(self._inside)

    def start(self, function: Callable[[], T]) -> Future[T]:
        """Put work into the queue."""
        self._check()
        future = self._pool.submit(tracing.carried(function))
        self._enter(future)
        return future

    def enter(self, future: Future[Any], work: Callable[[], None]) -> None:
        """Take a place until a result is there, and put work into the queue that may give it, or another's."""
        self._check()
        self._pool.submit(tracing.carried(work))
        self._enter(future)

    def _check(self) -> None:
        if self.inside >= self.threads + self.waiting:
            text = f"{self.threads} requests are being worked on and {self.waiting} are waiting: try again later"
            raise Problem(429, text, "busy", {"Retry-After": str(RETRY_SECONDS)})

    def _enter(self, future: Future[Any]) -> None:
        self._inside.add(future)
        future.add_done_callback(self._inside.discard)

    async def run(self, function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        """Return the result of a function, called in one of the threads.

        Raises:
            Problem: the queue is full (429), it did not begin in time (503), or did not end in time (504).
        """
        return await self.wait(self.start(lambda: function(*arguments, **keywords)))

    async def run_watched(self, function: Callable[[Happened], T]) -> T:
        """Do as `run`, for a function that tells what happens; telling it ends the work when nobody waits any more."""
        gone = Event()

        def happened(name: str, data: dict[str, Any]) -> None:
            if gone.is_set():
                raise Abandoned

        return await self.wait(self.start(lambda: function(happened)), gone)

    async def wait(self, future: Future[T], gone: Event | None = None) -> T:
        """Return the result of work that was started.

        Raises:
            Problem: it did not begin (503) or end (504) in time, or the server is stopped (503).
        """
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        result = asyncio.wrap_future(future)
        either: set[asyncio.Future[Any]] = {result, self._ended}
        try:
            await asyncio.wait(either, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if self._ended.done():
                raise stopping()
            if future.cancel():
                late = f"The server is busy: the request waited {self.seconds:g} s without beginning"
                raise Problem(503, late, "late", {"Retry-After": str(RETRY_SECONDS)})
            raise Problem(504, f"The request took longer than {self.seconds:g} s", "late")
        finally:
            # What has not begun when its caller leaves never does.
            future.cancel()
            if not result.done():
                result.add_done_callback(_note_failure)
            if gone is not None:
                gone.set()

    def end(self) -> None:
        """Tell all who wait that the server is stopped. Call it in the event loop."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def close(self) -> None:
        """Drop what waits; what runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _note_failure(result: asyncio.Future[Any]) -> None:
    """Log what went wrong after the caller had left; that work was given up is no failure."""
    error = None if result.cancelled() else result.exception()
    if error is not None and not isinstance(error, Abandoned | Problem | MogError):
        log.error("unexpected error in abandoned work", exc_info=error)


def stopping() -> Problem:
    """Return the problem of a request that the server is stopped before."""
    return Problem(503, "The server is being stopped: try again", "stopping", {"Retry-After": str(RETRY_SECONDS)})


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


class BatchedSearches:
    """Searches in the threads and the queue of `slots`.

    Args:
        slots: Where work is done.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots, self._lock = slots, Lock()
        self._waiting: list[_Waiting] = []

    async def run(self, question: str, key: Hashable, search: Search, finish: Callable[[Any], Any]) -> Any:
        """Return the result for a question.

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
                fits = len(taken) < MOST and (not taken or each.key == taken[0].key)
                if fits and each.future.set_running_or_notify_cancel():
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


# A comment keeps proxies from ending a connection on which nothing happens.
_QUIET_SECONDS = 10.0


class Stream:
    """Events of one answer. `start` puts the work into the queue, so that a full queue is told before the stream.

    Args:
        work: The queue.
        ask: The work; called with what is to be called when something happened.
        written: An event as bytes, from its name and data; the last one is `done` or `error`.
    """

    def __init__(
        self, work: Slots, ask: Callable[[Happened], Any], written: Callable[[str, Any], bytes] | None = None
    ) -> None:
        self._work, self._ask, self._written = work, ask, written or event
        self._gone = Event()
        self._events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def start(self) -> AsyncIterator[bytes]:
        """Return the events, each as bytes."""
        return self._sent(self._work.start(lambda: self._ask(self._note)))

    def _note(self, name: str, data: dict[str, Any]) -> None:
        """Note what the work tells, in its thread."""
        if self._gone.is_set():
            raise Abandoned
        self._loop.call_soon_threadsafe(self._events.put_nowait, (name, data))

    async def _sent(self, future: Future[Any]) -> AsyncIterator[bytes]:
        waiting = asyncio.ensure_future(self._finish(future))
        try:
            while True:
                try:
                    name, data = await asyncio.wait_for(self._events.get(), _QUIET_SECONDS)
                except TimeoutError:
                    yield b": still working\n\n"
                    continue
                if text := self._written(name, data):
                    yield text
                if name in ("done", "error"):
                    return
        finally:
            self._gone.set()
            waiting.cancel()

    async def _finish(self, future: Future[Any]) -> None:
        """Put the last event."""
        try:
            answer = await self._work.wait(future, self._gone)
            last = ("done", answer.to_json())
        except Exception as error:
            last = ("error", problem_of(error).to_json())
        await self._events.put(last)


def event(name: str, data: Any) -> bytes:
    """Return one event; its data is one line of JSON."""
    text = json.dumps(data, ensure_ascii=False, default=_plain)
    return f"event: {name}\ndata: {text}\n\n".encode()


def _plain(value: Any) -> Any:
    """Return a value that is not JSON: one of ours, or a number of numpy's."""
    for name in ("to_json", "tolist"):
        if hasattr(value, name):
            return getattr(value, name)()
    return str(value)
