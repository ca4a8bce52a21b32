"""Hashes of the files of a corpus. A file is read again only if its stamp is another, so that every edit is seen."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mog_assets.documents.folders import FolderFile, Stamp, opened, scan
from mog_assets.resources.errors import MogError
from mog_assets.resources.writing import atomic

# Bytes that are in memory at a time.
_PIECE = 1 << 20
# The last state of every file of hashes that this process has read: sensors look every few seconds.
_read: dict[Path, tuple[Stamp, dict[str, list[int | str]]]] = {}


def source_state(path: Path, limit: int, questions: Collection[str] = (), cache: Path | None = None) -> list[list[Any]]:
    """The state of a corpus, as JSON: equal as long as nothing was added, edited, renamed, touched or removed.

    Only files whose stamp is another than that in the cache are opened.

    Args:
        path: See `scan`.
        limit: See `scan`.
        questions: See `scan`; their content makes no difference.
        cache: The file of the hashes, see `Contents`.
    """
    contents = Contents(cache)

    def state(file: FolderFile) -> list[Any]:
        if file.status is None or file.refusal:
            return [file.place, file.refusal]
        return [file.place, file.status.st_mtime_ns, contents.of(file)]

    states = [state(found) for found in scan(path, limit, questions)]
    contents.keep()
    return states


class Contents:
    """Hashes of files by name and stamp, kept from one look at a corpus to the next.

    An edit may leave size and time of a file as they were, and a copy may change everything but these. The stamp tells
    of the first, the hash that the second is none.

    Args:
        path: Where they are kept; None: nowhere. It can be deleted at any time.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known = _stored(path, _stamp(path)) if path else {}
        self._now: dict[str, list[int | str]] = {}

    def of(self, file: FolderFile) -> str:
        """SHA-256 of a file in hexadecimal; the reason if it cannot be read."""
        assert file.status is not None
        stamp, started = Stamp.of(file.status), time.time_ns()
        noted = self._known.get(file.place)
        if noted is None or noted[:-1] != list(stamp):
            try:
                with opened(file.path) as stream:
                    digest = hashlib.sha256()
                    while piece := stream.read(_PIECE):
                        digest.update(piece)
                noted = [*stamp, digest.hexdigest()]
            except OSError as error:
                return f"cannot be read: {error.strerror}"
        if stamp.settled(started):
            self._now[file.place] = noted
        return str(noted[-1])

    def keep(self) -> None:
        """Keep the hashes of all files that were asked for and whose stamps can be trusted, and no others."""
        if self._path is None or self._now == self._known:
            return
        # Nothing but time is lost without them.
        with contextlib.suppress(OSError, MogError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic(self._path) as temporary:
                temporary.write_text(json.dumps(self._now), encoding="utf-8")


def _stamp(path: Path) -> Stamp | None:
    try:
        return Stamp.of(path.stat())
    except OSError:
        return None


def _stored(path: Path, stamp: Stamp | None) -> dict[str, list[int | str]]:
    if stamp is None:
        return {}
    read = _read.get(path)
    if read is not None and read[0] == stamp:
        return read[1]
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    hashes = stored if isinstance(stored, dict) else {}
    _read[path] = stamp, hashes
    return hashes
