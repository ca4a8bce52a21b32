"""What changed since rows were made: which documents are new, which are gone, and how the others are numbered now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from mog_assets.arrays import ranges
from mog_assets.chunking.chunks import coarser_count
from mog_assets.retrieval.bm25 import Bm25Index
from mog_assets.retrieval.corpora import Corpora

# Products of vectors differ in their last bits with the questions they are computed with, and those with pooled vectors
# with how these were rounded.
SLACK = 2e-3
# Scores that are in memory at a time, in bytes.
_SCORES_BYTES = 64 << 20


@dataclass(frozen=True)
class DocumentStates:
    """The documents of some corpora, in order.

    Attributes:
        hashes: What is ranked of each as a number, see `statistics.document_hashes`: uint64 of shape (documents,).
        pieces: Level-1 chunks of each, int64 of shape (documents,).
    """

    hashes: np.ndarray
    pieces: np.ndarray

    @classmethod
    def of(cls, corpora: Corpora, hashes: Mapping[str, np.ndarray]) -> DocumentStates:
        """Those of some corpora, from the hashes of each."""
        each = [hashes[name] for name in corpora.names]
        return cls(np.concatenate([np.zeros(0, np.uint64), *each]), np.diff(corpora.layout.offsets))

    @classmethod
    def read(cls, path: Path) -> DocumentStates:
        """What `write` wrote."""
        stored = load_file(path)
        return cls(stored["hashes"].view(np.uint64), stored["pieces"].astype(np.int64))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What is stored of them, by name."""
        return {"hashes": self.hashes.view(np.int64), "pieces": self.pieces.astype(np.int32)}

    def write(self, path: Path) -> None:
        """Write them."""
        path.write_bytes(save(self.arrays))


@dataclass(frozen=True)
class Change:
    """The difference of two states.

    Attributes:
        before, now: The documents.
    """

    before: DocumentStates
    now: DocumentStates

    @cached_property
    def fresh(self) -> np.ndarray:
        """Positions of documents that were not there before, or were different."""
        return np.flatnonzero(~np.isin(self.now.hashes, self.before.hashes))

    @cached_property
    def moved(self) -> np.ndarray:
        """Position now of every earlier document, −1 if it is gone: int64 of shape (documents before,)."""
        order = np.argsort(self.now.hashes, kind="stable")
        at = np.searchsorted(self.now.hashes, self.before.hashes, sorter=order)
        at = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(len(self.before.hashes), np.int64)
        present = self.now.hashes[at] == self.before.hashes if len(order) else np.zeros(len(at), bool)
        return np.where(present, at, -1)

    def chunks(self, chunks: np.ndarray, level: int) -> np.ndarray:
        """Numbers now of earlier chunks of a level, −1 if their document is gone, or for −1."""
        before, now = (_counts(state.pieces, level) for state in (self.before, self.now))
        ends, begins = np.cumsum(before), np.cumsum(now) - now
        document = np.minimum(np.searchsorted(ends, chunks, side="right"), max(len(ends) - 1, 0))
        moved = self.moved[document]
        kept = (chunks >= 0) & (moved >= 0)
        return np.where(kept, begins[moved] + chunks - (ends - before)[document], -1)


def _counts(pieces: np.ndarray, level: int) -> np.ndarray:
    """Chunks of a level of each document, from those of level 1."""
    for _ in range(level - 1):
        pieces = coarser_count(pieces)
    return pieces


def reached(scores: np.ndarray, floors: np.ndarray) -> np.ndarray:
    """Rows in which a new text may be among the best, bool of shape (rows,).

    Args:
        scores: Of the new texts, shape (rows, texts).
        floors: Result of `least` for the texts that were there before.
    """
    best = scores.max(axis=1, initial=0)
    rows: np.ndarray = (best > 0) & (best >= floors - SLACK)
    return rows


def about(names: Iterable[tuple[str, str]], corpora: Corpora, fresh: Collection[int]) -> bool:
    """Whether any of these documents, by corpus and id, is new or changed."""
    return any(corpora.position.get(name, -1) in fresh for name in names)


def chunks_of(corpora: Corpora, documents: np.ndarray, level: int) -> np.ndarray:
    """The chunks of a level of some documents, ascending."""
    offsets = corpora.layout.level_offsets(level)
    return ranges(offsets[documents], offsets[documents + 1])


def scored(index: Bm25Index, queries: Sequence[Sequence[str]]) -> Iterator[tuple[slice, np.ndarray]]:
    """BM25 scores of all texts of an index for some questions at a time: rows, and float32 of shape (rows, texts)."""
    step = max(_SCORES_BYTES // (4 * max(index.chunks, 1)), 1)
    for first in range(0, len(queries), step):
        rows = slice(first, min(first + step, len(queries)))
        scores = np.zeros((rows.stop - first, index.chunks), np.float32)
        index.add_scores(queries[rows], scores)
        yield rows, scores


def multiplied(vectors: np.ndarray, table: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Products of some questions at a time with all texts: rows, and float32 of shape (rows, texts)."""
    step = max(_SCORES_BYTES // (4 * max(len(table), 1)), 1)
    for first in range(0, len(vectors), step):
        rows = slice(first, min(first + step, len(vectors)))
        yield rows, np.asarray(vectors[rows], np.float32) @ table.T
