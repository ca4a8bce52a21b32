"""Parse files of office formats in a process of its own, with limits: a file that breaks its parser costs that file.

The process gets the bytes of a file and answers with JSON and text; nothing is unpickled, as pools of processes do. It
is started for the first file and reused, and imports a format's library with the first such file. A file that makes it
fail is tried once more in a new one, so that no outcome depends on files before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import warnings
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, NamedTuple, get_args

from mog_assets.documents.formats.kinds import READERS, format_of
from mog_assets.documents.formats.marks import MOST_MARKS, Kind, Mark, Parsed
from mog_assets.resources.errors import MogError

_CODE = "import sys; sys.path[:] = sys.argv[2:]; from MODULE import main; main(sys.argv[1])"
_SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|_URL$")
# Bytes of an answer apart from the text: title, metadata and marks.
_LONGEST_HEADER = 100_000_000
# Seconds that a process may take to start, and after its time limit that it ends by itself, if nobody stops it.
_START_SECONDS, _GRACE = 60, 10


class Limits(NamedTuple):
    """Of a corpus: `max_seconds`, `max_memory_mb`, `max_unpacked_mb`, `reader`, `encoding`, `columns`."""

    seconds: float = 60
    memory_bytes: int = 2_048_000_000
    unpacked_bytes: int = 200_000_000
    reader: str = "plain"
    encoding: str = ""
    columns: tuple[tuple[str, str], ...] = ()


def python(module: str, given: str) -> list[str]:
    """Return the command that calls `main` of a module with a text; it imports what this process would."""
    return [sys.executable, "-P", "-c", _CODE.replace("MODULE", module), given, *map(os.path.abspath, sys.path)]


def bare_environment() -> dict[str, str]:
    """Return the environment without its secrets, for a process that parses what may be hostile."""
    return {name: value for name, value in os.environ.items() if not _SECRET.search(name.upper())}


class Unsettled(ValueError):
    """The reason why a file was not parsed this time; another attempt may end differently."""


class _Ended(Exception):
    """The process ended, or gave an answer that makes no sense."""


class _Fault(Exception):
    """The process cannot parse this format at all."""


class Parser:
    """Parses files in a process of its own."""

    def __init__(self, limits: Limits, text_bytes: int) -> None:
        self._limits, self._text_bytes = limits, text_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._ending = ""

    def __enter__(self) -> Parser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def parse(self, name: str, content: bytes) -> Parsed:
        """Parse a file.

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
            except (_Ended, _Fault, MemoryError) as error:
                self._stop(wait=True)
                if fresh or attempt:
                    if isinstance(error, _Fault):
                        raise MogError(f"{name}: the parser cannot be used: {error}") from None
                    if isinstance(error, MemoryError):
                        most = self._limits.memory_bytes / 1e6
                        raise ValueError(f"expected to need at most {most:g} MB to be parsed (max_memory_mb)") from None
                    raise Unsettled(f"the parser crashed ({self._ending}); the file may be damaged") from None
        return parsed

    def _start(self) -> tuple[subprocess.Popen[bytes], Connection]:
        if self._process is None or self._connection is None:
            ours, theirs = socket.socketpair()
            limits = {**self._limits._asdict(), "text_bytes": self._text_bytes}
            with theirs:
                self._process = subprocess.Popen(
                    python(__name__, json.dumps(limits)),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=None if READERS[self._limits.reader].secrets else bare_environment(),
                )
            self._connection = Connection(ours.detach())
            # The time of a file does not include the start.
            try:
                if not self._connection.poll(_START_SECONDS):
                    raise EOFError
                self._connection.recv_bytes(1)
            except (EOFError, OSError):
                self._stop(wait=True)
                raise MogError(
                    f"the process that parses files did not start ({self._ending}): max_memory_mb may be too small"
                ) from None
        return self._process, self._connection

    def _stop(self, wait: bool = False) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            code = None
            if wait:
                # It ended by itself: how is part of the reason.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = self._process.wait(5)
            self._process.kill()
            code = self._process.wait() if code is None else code
            self._ending = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        self._process = self._connection = None

    def _ask(self, name: str, content: bytes) -> Parsed:
        process, connection = self._start()
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._limits.seconds, stop)
        timer.start()
        try:
            connection.send_bytes(name.encode("utf-8", "surrogateescape"))
            connection.send_bytes(content)
            answer = json.loads(connection.recv_bytes(_LONGEST_HEADER))
            if answer.get("memory"):
                raise MemoryError
            if answer.get("fault"):
                raise _Fault(str(answer["fault"]))
            if answer.get("reason"):
                raise ValueError(str(answer["reason"]))
            return _checked(answer, connection.recv_bytes(self._text_bytes).decode("utf-8", "surrogatepass"))
        except (EOFError, OSError):
            raise TimeoutError if late.is_set() else _Ended from None
        except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError, UnicodeDecodeError):
            raise _Ended from None
        finally:
            timer.cancel()


def _checked(answer: dict[str, Any], text: str) -> Parsed:
    """Return an answer, of which nothing is taken on trust: what parsed a hostile file may be in its hands."""
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


def read(name: str, content: bytes, limits: dict[str, Any]) -> Parsed:
    """Parse a file, in the process; its suffix tells the format.

    Raises:
        ValueError: it cannot be used; the message is the reason.
    """
    return format_of(name).read(name, content, limits)


def _answer(name: str, content: bytes, limits: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the header of the answer and the text."""
    try:
        parsed = read(name, content, limits)
    except MemoryError:
        return {"memory": True}, b""
    except ImportError as error:
        return {"fault": str(error)}, b""
    except ValueError as error:
        return {"reason": str(error)[:500] or type(error).__name__}, b""
    except Exception as error:  # Libraries raise errors of all kinds for damaged files.
        if "memory" in str(error).lower():
            return {"memory": True}, b""
        kind = PurePosixPath(name).suffix.lower()
        # Not the places of objects in memory, so that the reason is the same next time.
        reason = re.sub(r"<[^<>]* at 0x[0-9a-f]+>", "…", str(error))
        return {"reason": f"damaged: expected a readable {kind} file, got {type(error).__name__}: {reason}"[:500]}, b""
    text = parsed.text.encode("utf-8", "surrogatepass")
    if len(text) > (most := limits["text_bytes"]):
        return {"reason": f"expected at most {most} bytes of text (max_document_mb), got {len(text)}: not read"}, b""
    rest = {"metadata": parsed.metadata, "notes": parsed.notes}
    return {"title": parsed.title, "marks": parsed.marks[:MOST_MARKS], **rest}, text


def limited(memory_bytes: int) -> None:
    """Limit what this process may do; it is ended by who started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    with contextlib.suppress(ValueError, OSError):  # macOS refuses it, and has only the limit of time.
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(given: str) -> None:
    """Parse the files that come on the standard input, until one exhausts the memory or lacks a library."""
    limits = json.loads(given)
    limited(limits["memory_bytes"])
    with Connection(os.dup(0)) as connection, contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send_bytes(b"+")
        header: dict[str, Any] = {}
        while not header.keys() & {"memory", "fault"}:
            name, content = connection.recv_bytes().decode("utf-8", "surrogateescape"), connection.recv_bytes()
            # If the other side is gone, nobody stops this process.
            signal.setitimer(signal.ITIMER_REAL, limits["seconds"] + _GRACE)
            header, text = _answer(name, content, limits)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send_bytes(json.dumps(header).encode())
            if "title" in header:
                connection.send_bytes(text)
    sys.exit()
