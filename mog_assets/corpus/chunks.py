"""Chunks: level-1 spans that tile a document, and coarser levels by index arithmetic.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.1: a chunk of level j is two adjacent chunks of level j−1
of the same document; a trailing odd chunk is promoted alone. Only level-1 spans are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.corpus.reuse import write_rows
from mog_assets.corpus.sentences import sentence_ends

Spans = np.ndarray  # int64, shape (n, 2): start and end offset of each level-1 chunk, in characters


def split_text(text: str, finest_chars: int) -> Spans:
    """Level-1 spans of a text: whole sentences packed up to `finest_chars` characters.

    A sentence longer than that is cut at white space, and where there is none, anywhere.

    Args:
        text: Any text.
        finest_chars: Target length in characters, ≥ 1. No span is longer.

    Returns:
        int64 array of shape (n, 2); the spans tile the text: they start at 0, touch, and end at len(text).
    """
    ends = sentence_ends(text)
    spans: list[tuple[int, int]] = []
    start, sentence = 0, 0
    while start < len(text):
        limit = start + finest_chars
        reached = int(np.searchsorted(ends, limit, side="right"))
        if reached > sentence:
            stop, sentence = int(ends[reached - 1]), reached
        else:
            stop = _cut(text, start, limit)
            if sentence < len(ends) and stop == ends[sentence]:
                sentence += 1
        spans.append((start, stop))
        start = stop
    return np.asarray(spans, np.int64).reshape(-1, 2)


def _cut(text: str, start: int, limit: int) -> int:
    """The offset after the last white space before `limit`, else `limit`."""
    for offset in range(limit - 1, start, -1):
        if text[offset].isspace():
            return offset + 1
    return limit


def coarser_count(counts: np.ndarray) -> np.ndarray:
    """Chunks per document one level up: ⌈n/2⌉."""
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

    @cached_property
    def _level_offsets(self) -> dict[int, np.ndarray]:
        return {1: self.offsets}

    @cached_property
    def document_of(self) -> np.ndarray:
        """int64 array: position of the document of every level-1 chunk."""
        return np.repeat(np.arange(len(self.documents)), np.diff(self.offsets))

    def level_offsets(self, level: int) -> np.ndarray:
        """int64 array of shape (n + 1,): chunks of document i at this level are its entries i … i+1 (end exclusive)."""
        if level not in self._level_offsets:
            counts = coarser_count(np.diff(self.level_offsets(level - 1)))
            self._level_offsets[level] = np.concatenate([[0], np.cumsum(counts)])
        return self._level_offsets[level]

    def count(self, level: int) -> int:
        """Number of chunks at a level."""
        return int(self.level_offsets(level)[-1])

    def containing(self, finest: np.ndarray, level: int) -> np.ndarray:
        """The chunk at `level` that contains each of these level-1 chunks."""
        document = self.document_of[finest]
        return self.level_offsets(level)[document] + (finest - self.offsets[document]) // 2 ** (level - 1)

    def covered(self, chunks: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
        """First and last-plus-one level-1 chunk that each of these chunks of `level` covers."""
        offsets = self.level_offsets(level)
        document = np.searchsorted(offsets, chunks, side="right") - 1
        width = 2 ** (level - 1)
        first = self.offsets[document] + (chunks - offsets[document]) * width
        return first, np.minimum(first + width, self.offsets[document + 1])

    def chunk_spans(self, chunks: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Document position, start and end offset of each of these chunks of `level`."""
        first, last = self.covered(chunks, level)
        return self.document_of[first], self.spans[first, 0], self.spans[last - 1, 1]


def split_bucket(documents: str, out: str, chunker: str, finest_chars: int, previous: str | None = None) -> int:
    """Split the documents of a bucket; writes a table of `document` (row of the bucket), `start`, `end`.

    Args:
        documents: Parquet file with columns `text` and `sha256`.
        out: Parquet file to write.
        chunker: Name of the chunker.
        finest_chars: See `split_text`.
        previous: What this function wrote, with the same options, for an earlier state of the bucket.

    Returns:
        Number of documents split: those that `previous` does not have.
    """
    if chunker != "sentences":
        raise ValueError(f"chunker must be 'sentences', got {chunker!r}")
    table = pq.read_table(documents, columns=["text", "sha256"])

    def split(positions: list[int]) -> pa.Table:
        spans = [split_text(table["text"][position].as_py(), finest_chars) for position in positions]
        both = np.concatenate(spans).astype(np.int32)
        rows = np.repeat(np.asarray(positions, np.int32), [len(s) for s in spans])
        return pa.table({"document": rows, "start": both[:, 0], "end": both[:, 1]})

    return write_rows(Path(out), table["sha256"].to_pylist(), Path(previous) if previous else None, split)
