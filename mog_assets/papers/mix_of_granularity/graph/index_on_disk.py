"""Vocabularies of graphs, and an index of many terms that is built on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.papers.level_search.bm25 import Bm25Index
from mog_assets.resources.scratch import Scratch
from mog_assets.resources.tables import read_table


def save_terms(terms: Sequence[str], path: Path) -> None:
    """Write a vocabulary."""
    pq.write_table(pa.table({"term": pa.array(terms, pa.string())}), path, compression="zstd")


def load_terms(path: Path) -> list[str]:
    """Read a vocabulary."""
    return read_table(path)["term"].to_pylist()


class IndexOnDisk:
    """Builds an index of many terms from indexes of some of them, with one in memory at a time.

    Args:
        folder: Folder of its files; they have no name, and disappear when the index is no longer used.
    """

    def __init__(self, folder: Path) -> None:
        self._weights, self._indices = Scratch(folder), Scratch(folder)
        self._terms: list[str] = []
        self._frequencies: list[np.ndarray] = []

    def add(self, part: Bm25Index) -> None:
        """Add the index of further terms over the same chunks."""
        self._chunks = part.chunks
        self._terms += part.terms
        self._frequencies.append(np.diff(part.arrays["indptr"]))
        self._weights.append([part.arrays["data"].data])
        self._indices.append([part.arrays["indices"].astype(np.int32, copy=False).data])

    def index(self) -> Bm25Index:
        """Return the index of all terms, mapped from disk."""
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(self._frequencies))])
        weights, indices = self._weights.mapped(np.float32), self._indices.mapped(np.int32)
        return Bm25Index.of(self._terms, weights, indices, indptr, self._chunks)
