"""An answer as server-sent events: what happens while it is worked on, then the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from threading import Event
from typing import Any

from mog_assets.serve.problems import problem_of
from mog_assets.serve.queues import Abandoned, Happened, Slots

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
        """The events, each as bytes."""
        return self._sent(self._work.start(lambda: self._ask(self._note)))

    def _note(self, name: str, data: dict[str, Any]) -> None:
        """Called by the work, in its thread."""
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
    """One event; its data is one line of JSON."""
    text = json.dumps(data, ensure_ascii=False, default=_plain)
    return f"event: {name}\ndata: {text}\n\n".encode()


def _plain(value: Any) -> Any:
    """A value that is not JSON: one of ours, or a number of numpy's."""
    for name in ("to_json", "tolist"):
        if hasattr(value, name):
            return getattr(value, name)()
    return str(value)
