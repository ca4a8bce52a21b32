"""Titles, texts and metadata of documents, read from their Parquet files where a question needs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.resources.lazy import Recent

# Files whose groups are remembered.
_FILES = 256


class StoredDocuments:
    """Documents of some corpora, numbered in the order of their files, which never change.

    They are read a group of rows at a time. Groups that were read before stay, as many as fit: reading one takes a
    hundred times longer than taking a row of it.

    Args:
        paths: The files.
        most: Most bytes of groups that stay, unpacked.
    """

    def __init__(self, paths: Sequence[Path], most: int = 256 << 20) -> None:
        self.paths = paths
        self._groups: Recent[pa.Table] = Recent(most)

    @cached_property
    def _starts(self) -> np.ndarray:
        """First document of each file."""
        return np.cumsum([0, *(pq.read_metadata(path).num_rows for path in self.paths)])[:-1]

    def rows(self, documents: Iterable[int], columns: Sequence[str] = ("title", "text")) -> dict[int, dict[str, Any]]:
        """Return what is stored of some documents, by position.

        Args:
            documents: Positions of the documents.
            columns: Names of columns of the asset `documents`.
        """
        rows: dict[int, dict[str, Any]] = {}
        wanted = np.unique(np.array(list(documents), np.int64))
        # Of files without a document the last begins where the next one does.
        file = np.searchsorted(self._starts, wanted, side="right") - 1
        for number in np.unique(file).tolist():
            here = wanted[file == number]
            taken = self._take(self.paths[number], here - self._starts[number], columns)
            rows.update(zip(here.tolist(), taken, strict=True))
        return rows

    def _take(self, path: Path, rows: np.ndarray, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return some rows of a file, ascending by number."""
        metadata, starts = _groups_of(path)
        group, taken = np.searchsorted(starts, rows, side="right") - 1, []
        for number, row in zip(group.tolist(), (rows - starts[group]).tolist(), strict=True):
            table = self._groups.get((path, number), partial(_read_group, path, metadata, number))
            # Few rows are taken of many: value by value takes a third of the time of `table.take`.
            taken.append({name: table[name][row].as_py() for name in columns})
        return taken


def _read_group(path: Path, metadata: pq.FileMetaData, number: int) -> pa.Table:
    with pq.ParquetFile(path, metadata=metadata) as file:
        return file.read_row_group(number, use_threads=False)


@lru_cache(maxsize=_FILES)
def _groups_of(path: Path) -> tuple[pq.FileMetaData, np.ndarray]:
    """Return what a file says of its groups, and the first row of each."""
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    return metadata, np.cumsum([0, *sizes])[:-1]
