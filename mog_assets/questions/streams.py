"""Open files of questions and of foreign data sets: regular files only, unpacked if they are gzip files."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from mog_assets.documents.decoding import other_encoding, split_lines
from mog_assets.documents.folders import opened
from mog_assets.resources.errors import MogError

Advance = Callable[[int], object]


@contextmanager
def unpacked(path: Path, kind: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The content of a file, and the file itself, whose position says how much of it was read.

    Args:
        path: A file; unpacked if its name ends in `.gz`.
        kind: What it should be, for the message.

    Raises:
        MogError: it cannot be read, here or inside the context.
    """
    try:
        with opened(os.path.realpath(path)) as raw:
            if path.name.lower().endswith(".gz"):
                with gzip.open(raw) as stream:
                    yield cast(BinaryIO, stream), raw
            else:
                yield raw, raw
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MogError(f"{path}: expected a readable {kind}, got: {reason}") from error


def lines_of(path: Path, kind: str, limit: int, advance: Advance | None = None) -> Iterator[tuple[int, bytes, str]]:
    """Number, bytes, and what is wrong with every line that is not blank; a line over the limit is not kept.

    Args:
        path: A file, see `unpacked`.
        kind: What it should be, for the message.
        limit: Bytes of a line.
        advance: Called with the bytes of the file that were read since the last call.

    Raises:
        MogError: it cannot be read, or its byte order mark is not that of UTF-8.
    """
    with unpacked(path, kind) as (stream, raw):
        at = 0
        for number, line, size in split_lines(stream, limit):
            if number == 1 and (encoding := other_encoding(line)):
                raise MogError(f"{path}: expected UTF-8, got {encoding.upper()}: save it as UTF-8")
            yield (
                number,
                line,
                "" if size <= limit else f"expected at most {limit} bytes per line, got {size}: not read",
            )
            if advance is not None and (now := raw.tell()) != at:
                advance(now - at)
                at = now
