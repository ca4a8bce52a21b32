"""The process that parses files of office formats. It imports a format's library with the first such file."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import signal
import socket
import sys
import warnings
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from mog_assets.documents.formats.kinds import format_of
from mog_assets.documents.formats.marks import MOST_MARKS, Parsed

# Seconds after its time limit that a process ends by itself, if nobody is left to stop it.
_GRACE = 10


def read(name: str, content: bytes, limits: dict[str, Any]) -> Parsed:
    """Parse a file; its suffix tells the format.

    Raises:
        ValueError: it cannot be used; the message is the reason.
    """
    return format_of(name).read(name, content, limits)


def _answer(name: str, content: bytes, limits: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The header of the answer and the text."""
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
    return {"title": parsed.title, "marks": parsed.marks[:MOST_MARKS], "bytes": len(text), **rest}, text


def serve(stream: BinaryIO, connection: socket.socket, limits: dict[str, Any]) -> None:
    """Parse the files that arrive, until one exhausts the memory or needs a library that cannot be imported."""
    while request := stream.readline():
        order = json.loads(request)
        # If the other side is gone, nobody stops this process.
        signal.setitimer(signal.ITIMER_REAL, limits["seconds"] + _GRACE)
        header, text = _answer(order["name"], stream.read(order["bytes"]), limits)
        signal.setitimer(signal.ITIMER_REAL, 0)
        encoded = json.dumps(header).encode()
        connection.sendall(len(encoded).to_bytes(8, "big") + encoded)
        connection.sendall(text)
        if header.keys() & {"memory", "fault"}:
            return


def limited(memory_bytes: int) -> None:
    """Limit what this process may do; it is ended by who started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    with contextlib.suppress(ValueError, OSError):  # macOS refuses it, and has only the limit of time.
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(given: str) -> None:
    """Answer on the socket that is the standard input, within the limits that are given as JSON."""
    limits = json.loads(given)
    limited(limits["memory_bytes"])
    connection = socket.socket(fileno=0)
    with connection, connection.makefile("rb") as stream, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(b"+")
        serve(stream, connection, limits)
    sys.exit()
