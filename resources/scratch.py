"""Temporary files for data that does not fit into memory: they have no name and disappear with the process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources.files import FULL, disk_full


class Scratch:
    """An append-only temporary file, created by the first append.

    Args:
        folder: Its folder; None for the system's temporary folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @cached_property
    def _file(self) -> Any:
        folder = self._folder or Path(tempfile.gettempdir())
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)

    def append(self, parts: Iterable[bytes | memoryview]) -> int:
        """Append bytes and return the offset of the first; raise MogError if the disk is full."""
        start, parts = self._file.tell(), list(parts)
        try:
            self._file.writelines(parts)
            self._file.flush()
        except OSError as error:
            if error.errno not in FULL:
                raise
            folder = self._folder or Path(tempfile.gettempdir())
            end = start + sum(memoryview(part).nbytes for part in parts)
            raise disk_full(folder / "a temporary file", end, str(error)) from error
        return start

    def read(self, start: int, size: int) -> bytes:
        """Return `size` bytes from offset `start`."""
        return os.pread(self._file.fileno(), size, start)

    def mapped(self, dtype: type) -> np.ndarray:
        """Return all bytes as a memory-mapped array."""
        if not self._file.tell():
            return np.zeros(0, dtype)
        return np.asarray(np.memmap(self._file, dtype, "c"))
