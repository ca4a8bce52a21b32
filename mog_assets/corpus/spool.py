"""Texts on disk while a corpus is read, so that those of all its documents are never in memory together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path

from resources.scratch import Scratch

# Characters that wait in memory: a small corpus never comes to the disk.
_WAITING = 32_000_000


class Spool(Mapping[str, str]):
    """Texts by key.

    Args:
        folder: Where the file for them lies; None: where the system keeps temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._file = Scratch(folder)
        self._waiting: dict[str, str] = {}
        self._characters = 0
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, key: str, text: str) -> None:
        """Keep a text; one that is already there under this key stays.

        Raises:
            MogError: there is no room for it.
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
