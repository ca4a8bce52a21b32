"""Open what the graph has stored of the corpora of a question set, for searching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow.parquet as pq

from mog_assets.config import RetrieverName, Settings
from mog_assets.corpus.chunks import Layout
from mog_assets.corpus.layouts import Stored, open_layout
from mog_assets.retrieval.bm25 import Bm25Index, TermCounts, load_counts, load_terms, statistics
from mog_assets.retrieval.search import Bm25Searcher, DenseSearcher, HybridSearcher, Remembering, Searcher
from mog_assets.retrieval.tokens import query_terms
from mog_assets.retrieval.vectors import VectorTable

Read = Callable[[str, str], Stored]
"""Reads an asset of a corpus from the store."""

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to unit vectors."""


class Vectors(Protocol):
    """Opens collections of vectors by name and vector size."""

    def open(self, name: str, size: int) -> AbstractContextManager[Any]:
        """A collection."""


@dataclass(frozen=True)
class Corpora:
    """The corpora of a question set, in its order.

    Args:
        read: Reads an asset of a corpus.
        settings: Of the project.
        names: The corpora.
        layouts: Per corpus.
    """

    read: Read
    settings: Settings
    names: Sequence[str]
    layouts: Sequence[Layout]

    @classmethod
    def open(cls, read: Read, settings: Settings, names: Sequence[str]) -> Corpora:
        """Open layouts; everything else is opened when it is asked for."""
        layouts = [open_layout(name, read("documents", name), read("chunks/level_1", name)) for name in names]
        return cls(read, settings, names, layouts)

    def counts(self, level: int) -> list[TermCounts]:
        """Term counts of a level, per corpus."""
        return [
            load_counts(
                self.read(f"bm25/level_{level}", name).path("counts.safetensors"),
                load_terms(self.read("tokens", name).path("terms.parquet")),
            )
            for name in self.names
        ]

    def bm25(self, level: int) -> list[Bm25Index]:
        """BM25 indexes of a level, per corpus, weighted as the settings say."""
        options = self.settings.bm25
        parts = self.counts(level)
        pooled = statistics(parts) if options.statistics == "question_set" else None
        return [Bm25Index(part, pooled or statistics([part]), options.k1, options.b) for part in parts]

    def vectors(self, level: int) -> list[VectorTable]:
        """Vectors of a level, per corpus."""
        tables = []
        for name in self.names:
            stored = self.read(f"embeddings/level_{level}", name)
            tables.append(VectorTable([stored.path(n) for n in stored.names("bucket")]))
        return tables

    def texts(self, corpus: int, documents: Sequence[int]) -> dict[int, str]:
        """Texts of some documents of a corpus, by position."""
        stored = self.read("documents", self.names[corpus])
        wanted, texts, base = set(documents), {}, 0
        for name in stored.names("bucket"):
            table = pq.read_table(stored.path(name), columns=["text"])
            for position in [d - base for d in wanted if base <= d < base + len(table)]:
                texts[base + position] = table["text"][position].as_py()
            base += len(table)
        return texts

    def point_numbers(self, level: int) -> list[dict[str, int]]:
        """Chunk number by point id of a level's collection, per corpus."""
        import uuid

        numbers = []
        for name in self.names:
            ids = np.load(self.read(f"collections/level_{level}", name).path("ids.npy"))
            numbers.append({str(uuid.UUID(bytes=row.tobytes())): i for i, row in enumerate(ids)})
        return numbers

    def searcher(
        self, retriever: RetrieverName, queries: Sequence[str], encode: Encode, vector_store: Vectors
    ) -> Searcher:
        """A searcher for some questions.

        Args:
            retriever: `bm25`, `dense` or `hybrid`.
            queries: The questions alone, never their options.
            encode: Texts to vectors; called only where vectors are needed.
            vector_store: Holds the collections.
        """
        if retriever == "bm25":
            return Remembering(Bm25Searcher(query_terms(queries), self.bm25))
        if retriever == "dense":
            return Remembering(DenseSearcher(encode(queries), lambda *asked: self._nearest(vector_store, *asked)))
        parts = [self.searcher(name, queries, encode, vector_store) for name in ("bm25", "dense")]
        return Remembering(HybridSearcher(parts))

    def _nearest(
        self, vector_store: Vectors, vectors: np.ndarray, level: int, k: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        found = []
        with vector_store.open(f"level_{level}", vectors.shape[1]) as collection:
            for name, number in zip(self.names, self.point_numbers(level), strict=True):
                chunks = np.full((len(vectors), k), -1, np.int64)
                scores = np.zeros((len(vectors), k))
                for row, hits in enumerate(collection.search(name, vectors, k)):
                    # Points of chunks that are being replaced at this moment are in no manifest.
                    known = [(number[identity], score) for identity, score in hits if identity in number]
                    if known:
                        chunks[row, : len(known)], scores[row, : len(known)] = zip(*known, strict=True)
                found.append((chunks, scores))
        return found
