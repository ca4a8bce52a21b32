"""Make vectors of the texts of buckets: level 1 is encoded, coarser levels are pooled, all are rounded or linked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mog_assets.build.recipe import Work
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.vectors import round_vectors
from mog_assets.resources.files import save_array
from mog_assets.resources.store import Artefact
from mog_assets.text.chunks import Layout, chunk_text

# Edges of a vector in a graph, and vectors that are looked at for each that is added.
_EDGES, _ADDING = 16, 128
# Level-1 vectors that are unpacked at a time to be pooled.
_POOLED_AT_ONCE = 1 << 15
# Texts that are in memory at a time while a corpus is encoded.
_TEXTS_AT_ONCE = 20_000


def encode_buckets(
    work: Work, keys: dict[str, Any], count: Callable[[str], int], texts: Callable[[str], list[str]]
) -> None:
    """Write an `.npy` file of unit vectors, float16 of shape (texts, size), for every bucket that has none yet.

    Args:
        work: Of the artefact that the files belong to.
        keys: What determines the texts of each bucket, by logical name of a `.parquet` file.
        count: Number of texts of a bucket.
        texts: The texts of a bucket, in order; called only for those that are encoded.
    """
    encoder = work.tools.encoder
    before = encoder.encoded
    wanted = []
    for name, key in keys.items():
        _, exists = work.file(name.replace(".parquet", ".npy"), *key, encoder.fingerprint)
        if not exists:
            wanted.append(name)
    pending: list[tuple[str, list[str]]] = []
    total = sum(map(count, wanted))
    with (
        work.progress(total, "texts encoded") as advance,
        work.tools.engine.encoding(encoder, total),
    ):

        def flush() -> None:
            vectors = encoder.encode([text for _, texts_of in pending for text in texts_of], advance)
            start = 0
            for name, texts_of in pending:
                path = work.draft.path(name.replace(".parquet", ".npy"))
                with work.writing(path) as temporary:
                    save_array(temporary, vectors[start : start + len(texts_of)])
                start += len(texts_of)
            pending.clear()

        for name in wanted:
            pending.append((name, texts(name)))
            if sum(len(batch) for _, batch in pending) >= _TEXTS_AT_ONCE:
                flush()
        if pending:
            flush()
    work.recomputed["texts encoded"] = encoder.encoded - before
    if wanted:
        work.info["device"] = encoder.model.description


def bucket_texts(documents: Path, layout: Layout, level: int) -> list[str]:
    """Return `chunk_text` of every chunk of a level of one bucket, in order."""
    table = pq.read_table(documents, columns=["title", "text"])
    titles, texts = table["title"].to_pylist(), table["text"].to_pylist()
    rows = zip(*layout.chunk_spans(np.arange(layout.count(level)), level), strict=True)
    return [chunk_text(titles[d], texts[d][s:e]) for d, s, e in rows]


def pool(finest: np.ndarray, layout: Layout, level: int) -> np.ndarray:
    """Return vectors of a level from those of level 1: means weighted by length in characters, scaled to length 1.

    Args:
        finest: Level-1 vectors, float16 of shape (level-1 chunks, size).
        layout: Of the chunks.
        level: The level to make.

    Returns:
        float16 array of shape (chunks of the level, size).
    """
    first, _ = layout.covered(np.arange(layout.count(level)), level)
    return unit_sums(finest, piece_sizes(layout), first)


def piece_sizes(layout: Layout) -> np.ndarray:
    """Return characters of every level-1 chunk, float32."""
    return np.diff(layout.spans, axis=1)[:, 0].astype(np.float32)


def _sums(finest: np.ndarray, sizes: np.ndarray, first: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield weighted sums of pieces, and what divides each of them to have length 1.

    A sum depends on its own pieces alone, to the bit, whichever others are asked for.

    Args:
        finest: Vectors of the pieces, shape (pieces, size).
        sizes: Characters of every piece.
        first: First piece of each sum, ascending; each ends where the next begins, the last at the last piece.

    Yields:
        float32 arrays of shapes (sums, size) and (sums, 1), so many at a time that their pieces take few bytes.
    """
    ends = np.append(first[1:], len(finest))
    begin = 0
    while begin < len(first):
        end = max(int(np.searchsorted(ends, first[begin] + _POOLED_AT_ONCE, side="right")), begin + 1)
        pieces = slice(first[begin], ends[end - 1])
        weighted = finest[pieces].astype(np.float32) * sizes[pieces, None]
        sums = np.add.reduceat(weighted, first[begin:end] - first[begin])
        yield sums, np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        begin = end


def unit_sums(finest: np.ndarray, sizes: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the sums of `_sums` scaled to length 1: float16 array of shape (sums, size)."""
    pooled, begin = np.empty((len(first), finest.shape[1]), np.float16), 0
    for sums, lengths in _sums(finest, sizes, first):
        pooled[begin : begin + len(sums)] = sums / lengths
        begin += len(sums)
    return pooled


def pool_bucket(documents: str, spans: str, finer: str, level: int, out: str) -> int:
    """Write what divides the weighted sums of one bucket, for vectors that are made when needed.

    Args:
        documents: Parquet file of the documents.
        spans: Parquet file of their level-1 spans.
        finer: `.npy` file of the level-1 vectors.
        level: The level to make.
        out: `.npy` file to write: float32 of shape (chunks of the level,).

    Returns:
        Number of chunks.
    """
    layout = bucket_layout(Path(documents), Path(spans))
    first, _ = layout.covered(np.arange(layout.count(level)), level)
    lengths_of = [lengths[:, 0] for _, lengths in _sums(np.load(finer, mmap_mode="r"), piece_sizes(layout), first)]
    save_array(Path(out), np.concatenate([np.zeros(0, np.float32), *lengths_of]))
    return len(first)


@dataclass(frozen=True)
class VectorBucket:
    """Files of the vectors of a bucket's chunks of a level.

    Attributes:
        documents: Parquet file of the documents.
        spans: Parquet file of their level-1 spans.
        vectors: `.npy` file of the vectors, or of those of level 1.
        pooled: The level to pool from level 1; None if the file holds the vectors themselves.
    """

    documents: str
    spans: str
    vectors: str
    pooled: int | None = None

    def open(self) -> np.ndarray:
        """Return the vectors, float16 of shape (chunks, size)."""
        vectors: np.ndarray = np.load(self.vectors, mmap_mode="r")
        if self.pooled is None:
            return vectors
        return pool(vectors, bucket_layout(Path(self.documents), Path(self.spans)), self.pooled)

    @property
    def count(self) -> int:
        """Number of the vectors."""
        if self.pooled is None:
            return len(np.load(self.vectors, mmap_mode="r"))
        return bucket_layout(Path(self.documents), Path(self.spans)).count(self.pooled)


def vector_buckets(read: Callable[[str], Artefact], level: int) -> list[VectorBucket]:
    """Return the buckets of a corpus, in order.

    Args:
        read: Reads an asset of the corpus.
        level: The level.
    """
    documents, spans, vectors = (read(key) for key in ("documents", "chunks/level_1", "embeddings/level_1"))
    return [
        VectorBucket(
            str(documents.path(name)),
            str(spans.path(name)),
            str(vectors.path(name.replace(".parquet", ".npy"))),
            None if level == 1 else level,
        )
        for name in documents.names("bucket")
    ]


def write_graph(vectors: Sequence[str], out: str) -> int:
    """Write the graph of a shard.

    Args:
        vectors: `.npy` files of its buckets, at least one, in order.
        out: File to write.

    Returns:
        Number of vectors.
    """
    from usearch.index import Index

    size, count = np.load(vectors[0], mmap_mode="r").shape[1], 0
    graph = Index(ndim=size, metric="ip", dtype="i8", connectivity=_EDGES, expansion_add=_ADDING)
    for path in vectors:
        rows = np.load(path)
        # One thread: the order in which vectors are added decides which edges there are.
        if len(rows):
            graph.add(np.arange(count, count + len(rows)), rows.astype(np.float32), threads=1)
        count += len(rows)
    graph.save(out)
    return count


def write_rounded(vectors: Sequence[str], out: str) -> int:
    """Write the vectors of a shard with a byte for each number, and after them the scale of each, as 4 bytes.

    Args:
        vectors: `.npy` files of its buckets, at least one, in order.
        out: `.npy` file to write: int8 of shape (pieces, size + 4).

    Returns:
        Number of vectors.
    """
    parts = []
    for path in vectors:
        rounded, scales = round_vectors(np.load(path).astype(np.float32))
        parts.append(np.concatenate([rounded, scales[:, None].view(np.int8)], axis=1))
    rows = np.concatenate(parts)
    save_array(Path(out), rows)
    return len(rows)
