"""Chunks: level-1 spans that tile a document, and coarser levels by index arithmetic.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.1: a chunk of level j is two adjacent chunks of level j−1
of the same document; a trailing odd chunk is promoted alone to the next level. Only level-1 spans are stored.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.build.reuse import write_rows
from mog_assets.resources.arrays import pairs
from mog_assets.text.characters import characters
from mog_assets.text.chunkers import CHUNKERS, Options
from mog_assets.text.cuts import led, spans_to, unit_chars, units


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

    def pieces(self, document: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and last-plus-one level-1 chunk that begin in some spans of text."""
        first, last = (np.searchsorted(self._begins, pairs(document, at)) for at in (start, end))
        return first, last

    @cached_property
    def _begins(self) -> np.ndarray:
        return pairs(self.document_of, self.spans[:, 0])

    def level_offsets(self, level: int) -> np.ndarray:
        """int64 array of shape (n + 1,): chunks of document i at this level are its entries i … i+1 (end exclusive)."""
        if level not in self._level_offsets:
            below = np.diff(self.level_offsets(level - 1))
            self._level_offsets[level] = np.concatenate([[0], np.cumsum(coarser_count(below))])
        return self._level_offsets[level]

    def count(self, level: int) -> int:
        """Number of chunks at a level."""
        return int(self.level_offsets(level)[-1])

    def containing(self, finest: np.ndarray, level: int) -> np.ndarray:
        """The chunk at `level` that contains each of these level-1 chunks."""
        document = self.document_of[finest]
        return self.level_offsets(level)[document] + (finest - self.offsets[document]) // (1 << (level - 1))

    def covered(self, chunks: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
        """First and last-plus-one level-1 chunk that each of these chunks of `level` covers."""
        offsets = self.level_offsets(level)
        document = np.searchsorted(offsets, chunks, side="right") - 1
        width = 1 << (level - 1)
        first = self.offsets[document] + (chunks - offsets[document]) * width
        return first, np.minimum(first + width, self.offsets[document + 1])

    def chunk_spans(self, chunks: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Document position, start and end offset of each of these chunks of `level`."""
        first, last = self.covered(chunks, level)
        return self.document_of[first], self.spans[first, 0], self.spans[last - 1, 1]


def chunk_text(title: str, text: str) -> str:
    """The encoded text of a chunk: its document's title, then its text."""
    return f"{title}\n{text}" if title else text


def split_bucket(
    documents: str,
    out: str,
    chunker: str,
    finest_chars: int,
    previous: str | None = None,
    tokens: int | None = None,
    vectors: str | None = None,
    weights: str | None = None,
) -> int:
    """Split the documents of a bucket; writes a table of `document` (row of the bucket), `start`, `end`.

    Args:
        documents: Parquet file with columns `text` and `sha256`.
        out: Parquet file to write.
        chunker: Name of the chunker.
        finest_chars: See `Options`, like `tokens`; of Latin text: see `text.characters.characters`.
        previous: Output of this function for an earlier state of the bucket, with any options.
        tokens: See `Options`.
        vectors: `.npy` file of the vectors of the documents' units in order, for a chunker that takes them.
        weights: File of a trained model, for a chunker that has one.

    Returns:
        Number of documents split: those without an entry in `previous` for the same text, vectors and options.
    """
    table = pq.read_table(documents, columns=["text", "sha256"])
    texts = table["text"].to_pylist()
    unit_vectors = _unit_vectors(texts, finest_chars, vectors) if vectors else [None] * len(texts)
    trained = _sha256(weights) if weights else None
    # Chunkers that take vectors count units.
    lengths = [finest_chars if vectors else characters(text, finest_chars) for text in texts]
    decides = [json.dumps([chunker, CHUNKERS[chunker].version, length, tokens, trained]).encode() for length in lengths]
    keys = [
        hashlib.sha256(sha.encode() + others + (b"" if rows is None else rows.tobytes())).hexdigest()
        for sha, others, rows in zip(table["sha256"].to_pylist(), decides, unit_vectors, strict=True)
    ]

    def compute(positions: list[int]) -> pa.Table:
        made = {
            length: CHUNKERS[chunker].make(Options(length, tokens, Path(weights) if weights else None))
            for length in {lengths[position] for position in positions}
        }
        spans = [made[lengths[position]](texts[position], unit_vectors[position]) for position in positions]
        if CHUNKERS[chunker].leads:
            spans = [led(texts[position], cut) for position, cut in zip(positions, spans, strict=True)]
        both = np.concatenate(spans).astype(np.int32)
        rows = np.repeat(np.asarray(positions, np.int32), [len(s) for s in spans])
        return pa.table({"document": rows, "start": both[:, 0], "end": both[:, 1]})

    return write_rows(Path(out), keys, Path(previous) if previous else None, compute)


def _sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def bucket_units(documents: Path, finest_chars: int) -> list[str]:
    """The texts of the units of a bucket's documents, in order, whose vectors chunkers use."""
    chunks_of = []
    for text in pq.read_table(documents, columns=["text"])["text"].to_pylist():
        chunks_of += [text[start:end] for start, end in spans_to(units(text, unit_chars(finest_chars))).tolist()]
    return chunks_of


def _unit_vectors(texts: Sequence[str], finest_chars: int, path: str) -> list[np.ndarray]:
    """The vectors of each text's units, from a file with those of all texts."""
    stops = np.cumsum([len(units(text, unit_chars(finest_chars))) for text in texts])
    vectors = np.load(path, mmap_mode="r")
    if stops[-1] != len(vectors):
        raise ValueError(f"vectors must have a row for each of the {stops[-1]} units of the texts, got {len(vectors)}")
    return np.split(vectors, stops[:-1])
