"""Files for what does not fit into memory while something is built: they have no name and are gone with the process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from resources.store import FULL, disk_full


class Scratch:
    """A file that is appended to; there is none before that.

    Args:
        folder: Where it lies; None: where the system keeps temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @cached_property
    def _file(self) -> Any:
        folder = self._folder or Path(tempfile.gettempdir())
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)

    def append(self, parts: Iterable[bytes | memoryview]) -> int:
        """Add bytes at the end; returns where they begin.

        Raises:
            MogError: there is no room for them.
        """
        start = self._file.tell()
        try:
            self._file.writelines(parts)
            self._file.flush()
        except OSError as error:
            if error.errno not in FULL:
                raise
            folder = self._folder or Path(tempfile.gettempdir())
            raise disk_full(folder / "a temporary file", start + 1, str(error)) from error
        return start

    def read(self, start: int, size: int) -> bytes:
        """Some of the bytes."""
        return os.pread(self._file.fileno(), size, start)

    def mapped(self, dtype: type) -> np.ndarray:
        """All of them as an array that the system reads from the file, and drops from memory, as it sees fit."""
        if not self._file.tell():
            return np.zeros(0, dtype)
        return np.asarray(np.memmap(self._file, dtype, "c"))
