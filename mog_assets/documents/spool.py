"""Texts on disk while a corpus is read, so that they are never all in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path

from mog_assets.resources.scratch import Scratch

# Characters buffered in memory: a small corpus is never written to disk.
_WAITING = 32_000_000


class Spool(Mapping[str, str]):
    """Texts by key.

    Args:
        folder: Folder of their file; None for the system's temporary folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._file = Scratch(folder)
        self._waiting: dict[str, str] = {}
        self._characters = 0
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, key: str, text: str) -> None:
        """Add a text; an existing text with this key stays.

        Raises:
            MogError: the disk is full.
        """
        if key in self:
            return
        self._waiting[key] = text
        self._characters += len(text)
        if self._characters > _WAITING:
            self._write()

    def _write(self) -> None:
        parts = [text.encode() for text in self._waiting.values()]
        sizes = [len(part) for part in parts]
        starts = accumulate(sizes, initial=self._file.append(parts))
        self._places |= zip(self._waiting, zip(starts, sizes, strict=False), strict=True)
        self._waiting.clear()
        self._characters = 0

    def __getitem__(self, key: str) -> str:
        if key in self._waiting:
            return self._waiting[key]
        return self._file.read(*self._places[key]).decode()

    def __contains__(self, key: object) -> bool:
        return key in self._waiting or key in self._places

    def __iter__(self) -> Iterator[str]:
        yield from self._places
        yield from self._waiting

    def __len__(self) -> int:
        return len(self._places) + len(self._waiting)
