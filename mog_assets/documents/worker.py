"""Parse files of office formats in a process of its own, with limits: a file that breaks its parser costs that file.

The process gets the bytes of a file and answers with JSON and text; nothing is unpickled. It is started for the first
file and reused. A file that makes it fail is tried once more in a new one, so that no outcome depends on files before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple, get_args

from mog_assets.documents.formats.marks import MOST_MARKS, Kind, Mark, Parsed
from mog_assets.documents.formats.readers import READERS
from mog_assets.resources import extras
from mog_assets.resources.errors import MogError

_CODE = "import sys; sys.path[:] = sys.argv[2:]; from MODULE import main; main(sys.argv[1])"
_SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|_URL$")
# Bytes of an answer apart from the text: title, metadata and marks.
_LONGEST_HEADER = 100_000_000
# Seconds that a process may take to start.
_START_SECONDS = 60


class Limits(NamedTuple):
    """Of a corpus: `max_seconds`, `max_memory_mb`, `max_unpacked_mb`, `reader`, `encoding`, `columns`."""

    seconds: float = 60
    memory_bytes: int = 2_048_000_000
    unpacked_bytes: int = 200_000_000
    reader: str = "plain"
    encoding: str = ""
    columns: tuple[tuple[str, str], ...] = ()


def python(module: str, given: str) -> list[str]:
    """The command that calls `main` of a module with a text; it imports what this process would."""
    return [sys.executable, "-P", "-c", _CODE.replace("MODULE", module), given, *map(os.path.abspath, sys.path)]


def bare_environment() -> dict[str, str]:
    """The environment without its secrets, for a process that parses what may be hostile."""
    return {name: value for name, value in os.environ.items() if not _SECRET.search(name.upper())}


class Unsettled(ValueError):
    """The reason why a file was not parsed this time; another attempt may end differently."""


class _Ended(Exception):
    """The process ended, or gave an answer that makes no sense."""


class _Fault(Exception):
    """The process cannot parse this format at all."""


class Parser:
    """Parses files in a process of its own.

    Args:
        limits: Of every file.
        text_bytes: Maximum size of a text, as UTF-8.
    """

    def __init__(self, limits: Limits, text_bytes: int) -> None:
        self._limits = limits
        self._text_bytes = text_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._deadline = 0.0
        self._ending = ""

    def __enter__(self) -> Parser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def parse(self, name: str, content: bytes) -> Parsed:
        """Parse a file.

        Args:
            name: Of the file; its suffix tells the format.
            content: Its bytes.

        Raises:
            ValueError: it cannot be parsed; the message is the reason. `Unsettled` if another attempt may succeed.
            MogError: no file of this format can be parsed here.
        """
        for attempt in range(2):
            fresh = self._process is None
            try:
                parsed = self._ask(name, content)
                break
            except TimeoutError:
                self._stop()
                raise Unsettled(f"expected to be parsed in {self._limits.seconds:g} s (max_seconds): stopped") from None
            except (_Ended, _Fault, OSError, MemoryError) as error:
                self._stop(wait=True)
                if fresh or attempt:
                    if isinstance(error, _Fault):
                        raise MogError(f"{name}: the parser cannot be used: {error}") from None
                    if isinstance(error, MemoryError):
                        most = self._limits.memory_bytes / 1e6
                        raise ValueError(f"expected to need at most {most:g} MB to be parsed (max_memory_mb)") from None
                    raise Unsettled(f"the parser crashed ({self._ending}); the file may be damaged") from None
        return parsed

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        limits = {**self._limits._asdict(), "text_bytes": self._text_bytes}
        with theirs:
            self._process = subprocess.Popen(
                python("mog_assets.documents.child", json.dumps(limits)),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=None if READERS[self._limits.reader].secrets else bare_environment(),
            )
        self._deadline = time.monotonic() + _START_SECONDS
        # The time of a file does not include the start.
        try:
            self._receive(1)
        except (_Ended, OSError):
            self._stop(wait=True)
            raise MogError(
                f"the process that parses files did not start ({self._ending}): max_memory_mb may be too small"
            ) from None

    def _stop(self, wait: bool = False) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            code = None
            if wait:
                # It ended by itself: how is part of the reason.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = self._process.wait(5)
            self._process.kill()
            code = self._process.wait() if code is None else code
            self._ending = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        self._process = self._socket = None

    def _ask(self, name: str, content: bytes) -> Parsed:
        if self._process is None:
            self._start()
        assert self._socket is not None
        self._deadline = time.monotonic() + self._limits.seconds
        request = json.dumps({"name": name, "bytes": len(content)}).encode() + b"\n"
        self._socket.settimeout(self._limits.seconds)
        self._socket.sendall(request + content)
        size = int.from_bytes(self._receive(8), "big")
        if size > _LONGEST_HEADER:
            raise _Ended
        try:
            return self._answer(json.loads(self._receive(size)))
        except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError, UnicodeDecodeError):
            raise _Ended from None

    def _answer(self, answer: dict[str, Any]) -> Parsed:
        if answer.get("memory"):
            raise MemoryError
        if answer.get("fault"):
            raise _Fault(str(answer["fault"]))
        if answer.get("reason"):
            raise ValueError(str(answer["reason"]))
        if not 0 <= answer["bytes"] <= self._text_bytes:
            raise _Ended
        text = self._receive(answer["bytes"]).decode("utf-8", "surrogatepass")
        return _checked(answer, text)

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        received = bytearray()
        while len(received) < size:
            self._socket.settimeout(max(self._deadline - time.monotonic(), 1e-3))
            part = self._socket.recv(min(size - len(received), 1 << 20))
            if not part:
                raise _Ended
            received += part
        return bytes(received)


def _checked(answer: dict[str, Any], text: str) -> Parsed:
    """An answer, of which nothing is taken on trust: what parsed a hostile file may be in its hands."""
    title, metadata, notes = answer["title"], answer["metadata"], answer["notes"]
    marks = tuple(Mark(*mark) for mark in answer["marks"])
    sound = (
        isinstance(title, str)
        and isinstance(metadata, dict)
        and isinstance(notes, dict)
        and len(marks) <= MOST_MARKS
        and all(type(m.offset) is int and 0 <= m.offset <= len(text) for m in marks)
        and all(one.offset <= next_one.offset for one, next_one in pairwise(marks))
        and all(m.kind in get_args(Kind) and type(m.depth) is int and isinstance(m.text, str) for m in marks)
        and all(m.kind == "heading" or (m.text.isascii() and m.text.isdigit()) for m in marks)
    )
    if not sound:
        raise _Ended
    return Parsed(title, text, marks, metadata, notes)


def check_reader(reader: str) -> str:
    """What is missing for a reader; empty if nothing is."""
    from importlib.util import find_spec

    absent = [package for package in READERS[reader].packages if find_spec(package) is None]
    return f"reader: {reader} needs the package {absent[0]}: {extras.command(absent[0])}" if absent else ""
