"""What the server takes on: how much a request may ask for, how many run and wait, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any, TypeVar

from mog_assets.serving.problems import Problem

T = TypeVar("T")

RETRY_SECONDS = 1

Happened = Callable[[str, dict[str, Any]], None]


class Abandoned(Exception):
    """Nobody waits for the result any more."""


@dataclass(frozen=True)
class Options:
    """Options of the server.

    Attributes:
        key: What callers send as bearer token; empty if anybody may call.
        hosts: Names that callers may use for the server (header `Host`); empty if any.
        origins: Other web sites whose pages may call.
        concurrency: Searches at a time; and as many answers.
        waiting: Most searches that wait for their turn; and as many answers.
        timeout: Seconds for a search, waiting included.
        ask_timeout: Seconds for an answer, waiting included.
        drain: Seconds that running requests have when the server is stopped.
        body_bytes: Largest body of a request.
        body_seconds: Seconds for the head of a request, and again for its body, to arrive.
        send_seconds: Seconds for the caller to take a part of the answer.
        question_chars: Longest question.
        budget: Largest budget.
        k: Largest k.
        connections: Most connections.
        log_questions: Write the questions into the log.
        public_url: Where browsers reach the server, for links in what agents get; empty for the host they asked.
    """

    key: str = ""
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    concurrency: int = 4
    waiting: int = 32
    timeout: float = 30.0
    ask_timeout: float = 120.0
    drain: float = 20.0
    body_bytes: int = 1 << 20
    body_seconds: float = 10.0
    send_seconds: float = 30.0
    question_chars: int = 4000
    budget: int = 100_000
    k: int = 200
    connections: int = 1000
    log_questions: bool = False
    public_url: str = ""

    def check_question(self, name: str, question: str) -> str:
        """The question, if it is not too long.

        Raises:
            Problem: it is too long.
        """
        if len(question) > self.question_chars:
            raise Problem(
                422, f"{name}: expected at most {self.question_chars:,} characters, got {len(question):,}", "too much"
            )
        return question

    def check_amount(self, name: str, asked: int | None) -> None:
        """Check a budget or a k.

        Raises:
            Problem: it is larger than allowed.
        """
        most = self.budget if name == "budget" else self.k
        if asked is not None and asked > most:
            raise Problem(422, f"{name}: expected at most {most:,}, got {asked:,}", "too much")


class Work:
    """Work in a bounded number of threads with a bounded queue.

    A place is taken until its work has ended, also if nobody waits for it any more.
    """

    def __init__(self, name: str, threads: int, waiting: int, seconds: float) -> None:
        self.name, self.threads, self.waiting, self.seconds = name, threads, waiting, seconds
        self.inside = 0
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def start(self, function: Callable[[], T]) -> Future[T]:
        """Put work into the queue.

        Raises:
            Problem: the queue is full (429).
        """
        with self._lock:
            if self.inside >= self.threads + self.waiting:
                raise Problem(
                    429,
                    f"{self.threads} requests are being worked on and {self.waiting} are waiting: try again later",
                    "busy",
                    {"Retry-After": str(RETRY_SECONDS)},
                )
            self.inside += 1
        try:
            future = self._pool.submit(function)
        except BaseException:
            self._leave()
            raise
        future.add_done_callback(lambda _: self._leave())
        return future

    def _leave(self) -> None:
        with self._lock:
            self.inside -= 1

    async def run(self, function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        """The result of a function, called in one of the threads.

        Raises:
            Problem: the queue is full (429), it did not begin in time (503), or did not end in time (504).
        """
        return await self.wait(self.start(lambda: function(*arguments, **keywords)))

    async def run_watched(self, function: Callable[[Happened], T]) -> T:
        """As `run`, for a function that tells what happens; telling it ends the work when nobody waits any more."""
        gone = Event()

        def happened(name: str, data: dict[str, Any]) -> None:
            if gone.is_set():
                raise Abandoned

        return await self.wait(self.start(lambda: function(happened)), gone)

    async def wait(self, future: Future[T], gone: Event | None = None) -> T:
        """The result of work that was started.

        Args:
            future: The work.
            gone: Set when nobody waits for the result any more.

        Raises:
            Problem: it did not begin (503) or end (504) in time.
        """
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), self.seconds)
        except TimeoutError:
            raise self._late(future) from None
        finally:
            # What has not begun when its caller leaves never does.
            future.cancel()
            if gone is not None:
                gone.set()

    def _late(self, future: Future[Any]) -> Problem:
        if future.cancel():
            return Problem(
                503,
                f"The server is busy: the request waited {self.seconds:g} s without beginning",
                "late",
                {"Retry-After": str(RETRY_SECONDS)},
            )
        return Problem(504, f"The request took longer than {self.seconds:g} s", "late")

    def close(self) -> None:
        """Drop what waits; what runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
