"""Parse files of office formats in a process of its own, with limits: a file that breaks its parser costs that file.

The process gets the bytes of a file and answers with JSON. It is started for the first file and reused, and imports a
format's library with the first such file. A file that makes it fail is tried once more in a new one, so that no outcome
depends on files before.

A pool of processes, such as Pebble's, takes as long, but unpickles what the process answers, and imports the main
module of who reads: a script without `if __name__ == "__main__"` fails, and to import Dagster takes half a second and
46 MiB.
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
import warnings
from functools import cache
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from mog_assets.documents.formats.kinds import READERS, format_of
from mog_assets.documents.formats.marks import MOST_MARKS, Parsed
from mog_assets.resources.errors import MogError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_CODE = "import sys; sys.path[:] = sys.argv[2:]; from MODULE import main; main(sys.argv[1])"
_SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|_URL$")
# Bytes of an answer: for each of the text, as JSON escapes it, and for title, metadata and marks.
_LONGEST_ESCAPE, _LONGEST_REST = 6, 100_000_000
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


class Parser:
    """Parses files in a process of its own."""

    def __init__(self, limits: Limits, text_bytes: int) -> None:
        self._limits, self._text_bytes = limits, text_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def parse(self, name: str, content: bytes) -> Parsed:
        """Parse a file.

        Raises:
            ValueError: it cannot be parsed; the message is the reason. `Unsettled` if another attempt may succeed.
            MogError: no file of this format can be parsed here.
        """
        while True:
            fresh = self._process is None
            try:
                kind, answer = self._ask(name, content)
            except TimeoutError:
                self.close()
                raise Unsettled(f"expected to be parsed in {self._limits.seconds:g} s (max_seconds): stopped") from None
            except (EOFError, OSError):
                kind, answer = "crashed", f"the parser crashed ({self._ended()}); the file may be damaged"
            if kind == "parsed":
                return answer
            if kind == "reason":
                raise ValueError(answer)
            self.close()
            if fresh:
                error = {"fault": MogError, "crashed": Unsettled}.get(kind, ValueError)
                raise error(f"{name}: the parser cannot be used: {answer}" if kind == "fault" else answer)

    def _ask(self, name: str, content: bytes) -> tuple[str, Any]:
        connection = self._connection or self._start()
        connection.send_bytes(name.encode("utf-8", "surrogateescape"))
        connection.send_bytes(content)
        if not connection.poll(self._limits.seconds):
            raise TimeoutError
        return _checked(connection.recv_bytes(_LONGEST_ESCAPE * self._text_bytes + _LONGEST_REST))

    def _start(self) -> Connection:
        command = python(__name__, json.dumps({**self._limits._asdict(), "text_bytes": self._text_bytes}))
        try:
            ours, theirs = socket.socketpair()
            self._connection = Connection(ours.detach())
            with theirs:
                self._process = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=None if READERS[self._limits.reader].secrets else bare_environment(),
                )
        except OSError as error:
            self.close()
            raise MogError(f"the process that parses files did not start: {error.strerror}") from error
        # The time of a file does not include the start.
        with contextlib.suppress(EOFError, OSError):
            if self._connection.poll(_START_SECONDS) and self._connection.recv_bytes(1):
                return self._connection
        ending = self._ended()
        self.close()
        raise MogError(f"the process that parses files did not start ({ending}): max_memory_mb may be too small")

    def _ended(self) -> str:
        """Return how the process ended by itself."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(5)
            return signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return "it still ran"

    def close(self) -> None:
        """End the process, if there is one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None


@cache
def _parsed() -> TypeAdapter[Parsed]:
    # Not imported in the process that parses.
    from pydantic import TypeAdapter

    return TypeAdapter(Parsed)


def _checked(answer: bytes) -> tuple[str, Any]:
    """Return the kind of an answer and what it says, of which nothing is taken on trust: what parsed a file gave it.

    Raises:
        EOFError: it makes no sense.
    """
    try:
        kind, given = json.loads(answer)
        if kind != "parsed":
            return str(kind), str(given)
        parsed = _parsed().validate_python(given)
    except (ValueError, TypeError, RecursionError):
        raise EOFError from None
    offsets = [0, *(mark.offset for mark in parsed.marks), len(parsed.text)]
    numbers = (mark.text for mark in parsed.marks if mark.kind != "heading")
    if any(a > b for a, b in pairwise(offsets)) or not all(text.isascii() and text.isdigit() for text in numbers):
        raise EOFError
    return kind, parsed


def read(name: str, content: bytes, limits: dict[str, Any]) -> Parsed:
    """Parse a file, in the process; its suffix tells the format.

    Raises:
        ValueError: it cannot be used; the message is the reason.
    """
    return format_of(name).read(name, content, limits)


def _answer(name: str, content: bytes, limits: dict[str, Any]) -> tuple[str, Any]:
    """Return `parsed` and the content; or `reason`, `memory` or `fault` (of the process), and a message."""
    memory = "memory", f"expected to need at most {limits['memory_bytes'] / 1e6:g} MB to be parsed (max_memory_mb)"
    try:
        parsed = read(name, content, limits)
    except MemoryError:
        return memory
    except ImportError as error:
        return "fault", str(error)
    except ValueError as error:
        return "reason", str(error)[:500] or type(error).__name__
    except Exception as error:  # Libraries raise errors of all kinds for damaged files.
        if "memory" in str(error).lower():
            return memory
        suffix = PurePosixPath(name).suffix.lower()
        # Not the places of objects in memory, so that the reason is the same next time.
        reason = re.sub(r"<[^<>]* at 0x[0-9a-f]+>", "…", str(error))
        return "reason", f"damaged: expected a readable {suffix} file, got {type(error).__name__}: {reason}"[:500]
    size, most = len(parsed.text.encode("utf-8", "surrogatepass")), limits["text_bytes"]
    if size > most:
        return "reason", f"expected at most {most} bytes of text (max_document_mb), got {size}: not read"
    return "parsed", parsed._replace(marks=parsed.marks[:MOST_MARKS])


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
        kind = ""
        while kind not in ("memory", "fault"):
            name, content = connection.recv_bytes().decode("utf-8", "surrogateescape"), connection.recv_bytes()
            # If the other side is gone, nobody stops this process.
            signal.setitimer(signal.ITIMER_REAL, limits["seconds"] + _GRACE)
            kind, answer = _answer(name, content, limits)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send_bytes(json.dumps([kind, answer]).encode())
    sys.exit()
