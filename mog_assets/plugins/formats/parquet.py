"""Rows of Parquet files, read in a process of its own, within limits: a hostile file costs that file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from mog_assets.documents.decoding import split_lines
from mog_assets.documents.worker import Limits, Unsettled, bare_environment, python

_BATCH_ROWS = 256


class _Patient(io.RawIOBase):
    """Output of a process; one that takes longer than so many seconds for the next bytes is killed."""

    def __init__(self, process: subprocess.Popen[bytes], stream: Any, seconds: float) -> None:
        self._process, self._stream, self._seconds, self._late = process, stream, seconds, False

    def readable(self) -> bool:
        """Return True: it is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Return the next bytes."""
        # Not `select`: it takes no file numbers above 1,023, which a server may have, and on Windows no pipes.
        timer = threading.Timer(self._seconds, self._stop)
        timer.start()
        try:
            read = os.read(self._stream.fileno(), len(buffer))
        finally:
            timer.cancel()
        if self._late:
            raise TimeoutError
        buffer[: len(read)] = read
        return len(read)

    def _stop(self) -> None:
        self._late = True
        self._process.kill()


def rows(stream: BinaryIO, limits: Limits, limit: int) -> Iterator[tuple[int, str, bytes, int]]:
    """Yield number (from 1), no name, JSON (see `record_of_values`) and size of every row; beyond the limit only that.

    Args:
        stream: An open file.
        limits: Of the process; its seconds are those between two parts of the file.
        limit: Maximum bytes of a row.

    Raises:
        ValueError: the file, or the rest of it, cannot be read; the message is the reason. `Unsettled` if another
            attempt may succeed.
    """
    command = python(__name__, json.dumps(limits._asdict()))
    os.lseek(stream.fileno(), 0, os.SEEK_SET)
    process = subprocess.Popen(
        command, stdin=stream.fileno(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=bare_environment()
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        lines = split_lines(io.BufferedReader(_Patient(process, process.stdout, limits.seconds), 1 << 20), limit)
        yield from ((number, "", line, size) for number, line, size in lines)
        # It wrote all: what it says of itself is short.
        words = process.stderr.read(10_000).decode("utf-8", "replace").strip().splitlines()
        code = process.wait(limits.seconds)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise Unsettled(f"expected the next rows in {limits.seconds:g} s (max_seconds): stopped") from None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    if code == 1 and words:
        raise ValueError(words[-1])
    if code:
        raise Unsettled(f"the parser crashed (exit status {code}); the file may be damaged")


def main(given: str) -> None:
    """Write the rows of the file that is the standard input as lines of JSON, within the limits that are given."""
    from mog_assets.documents.tables import record_of_values
    from mog_assets.documents.worker import limited

    limits = json.loads(given)
    limited(limits["memory_bytes"])
    try:
        import pyarrow.parquet as pq

        with open(0, "rb") as stream, open(1, "wb") as out:
            for batch in pq.ParquetFile(stream).iter_batches(_BATCH_ROWS, use_threads=False):
                for row in batch.to_pylist():
                    out.write(
                        json.dumps(record_of_values(row, dict(limits["columns"])), ensure_ascii=False).encode(
                            "utf-8", "replace"
                        )
                        + b"\n"
                    )
    except MemoryError:
        sys.exit(f"expected to need at most {limits['memory_bytes'] / 1e6:g} MB to be parsed (max_memory_mb)")
    except Exception as error:  # The library raises errors of all kinds for damaged files.
        sys.exit(
            f"damaged: expected a readable .parquet file, got {type(error).__name__}: {' '.join(str(error).split())}"[
                :500
            ]
        )
