"""Chunks: level-1 spans that tile a document, and coarser levels by index arithmetic.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.1: a chunk of level j is two adjacent chunks of level j−1
of the same document; a trailing odd chunk is promoted alone to the next level. Only level-1 spans are stored.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mog_assets.resources.arrays import pairs


def coarser_count(counts: np.ndarray) -> np.ndarray:
    """Return chunks per document one level up: ⌈n/2⌉."""
    return (counts + 1) // 2


@dataclass(frozen=True)
class Layout:
    """Chunks of all levels of one corpus.

    Attributes:
        corpus: Its name.
        documents: Ids of its n documents, in store order.
        offsets: int64 array of shape (n + 1,): level-1 chunks of document i are offsets[i] … offsets[i+1] − 1.
        spans: int64 array of shape (chunks, 2): start and end offset of every level-1 chunk in its document's text.
    """

    corpus: str
    documents: Sequence[str]
    offsets: np.ndarray
    spans: np.ndarray

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes, with `document_of` and the offsets of a few levels."""
        of_documents = sum(map(sys.getsizeof, self.documents)) + 5 * self.offsets.nbytes
        return of_documents + self.spans.nbytes + self.spans.nbytes // 2

    @cached_property
    def _level_offsets(self) -> dict[int, np.ndarray]:
        return {1: self.offsets}

    @cached_property
    def document_of(self) -> np.ndarray:
        """int64 array: position of the document of every level-1 chunk."""
        return np.repeat(np.arange(len(self.documents)), np.diff(self.offsets))

    @cached_property
    def begins(self) -> np.ndarray:
        """int64 array: `pairs` of document and start of every level-1 chunk, ascending."""
        return pairs(self.document_of, self.spans[:, 0])

    def level_offsets(self, level: int) -> np.ndarray:
        """Return int64 of shape (n + 1,): chunks of document i at this level are entries i … i+1 (end exclusive)."""
        if level not in self._level_offsets:
            below = np.diff(self.level_offsets(level - 1))
            self._level_offsets[level] = np.concatenate([[0], np.cumsum(coarser_count(below))])
        return self._level_offsets[level]

    def count(self, level: int) -> int:
        """Return number of chunks at a level."""
        return int(self.level_offsets(level)[-1])

    def containing(self, finest: np.ndarray, level: int) -> np.ndarray:
        """Return the chunk at `level` that contains each of these level-1 chunks."""
        document = self.document_of[finest]
        return self.level_offsets(level)[document] + (finest - self.offsets[document]) // (1 << (level - 1))

    def covered(self, chunks: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
        """Return first and last-plus-one level-1 chunk that each of these chunks of `level` covers."""
        offsets = self.level_offsets(level)
        document = np.searchsorted(offsets, chunks, side="right") - 1
        width = 1 << (level - 1)
        first = self.offsets[document] + (chunks - offsets[document]) * width
        return first, np.minimum(first + width, self.offsets[document + 1])

    def chunk_spans(self, chunks: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return document position, start and end offset of each of these chunks of `level`."""
        first, last = self.covered(chunks, level)
        return self.document_of[first], self.spans[first, 0], self.spans[last - 1, 1]


def chunk_text(title: str, text: str) -> str:
    """Return the encoded text of a chunk: its document's title, then its text."""
    return f"{title}\n{text}" if title else text
