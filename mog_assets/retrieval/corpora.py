"""Open the stored assets of the corpora of a question set, for searching."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.arrays import greatest, pairs, places
from mog_assets.chunking.chunks import Layout
from mog_assets.chunking.layouts import join_layouts, open_layout
from mog_assets.chunking.sentences import token_starts
from mog_assets.config import Settings
from mog_assets.retrieval.bm25 import (
    Bm25Index,
    TermCounts,
    joined,
    load_counts,
    load_terms,
    statistics,
)
from mog_assets.retrieval.vectors import Pooling, VectorTable
from mog_assets.tables import OpenTables, read_table, take

# Products of questions and chunks that are in memory at a time, in bytes.
_SCORES_BYTES = 256 << 20

Read = Callable[[str, str | None], Any]
"""Reads an asset of a corpus, or one of all corpora, from the store: an artefact with its manifest and files."""

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
        kept: Indexes that stay open for the next questions; None if each is used once.

    Documents and chunks of all corpora are numbered in the order of the corpora.
    """

    read: Read
    settings: Settings
    names: Sequence[str]
    layouts: Sequence[Layout]
    kept: dict[Any, Any] | None = None
    _alone: RLock = field(default_factory=RLock, repr=False, compare=False)

    @classmethod
    def open(cls, read: Read, settings: Settings, names: Sequence[str], keep: bool = False) -> Corpora:
        """Open layouts; everything else is opened when needed.

        Args:
            read: Reads an asset of a corpus.
            settings: Of the project.
            names: The corpora.
            keep: Keep indexes open, for questions that come a few at a time.
        """
        layouts = [open_layout(name, read("documents", name), read("chunks/level_1", name)) for name in names]
        return cls(read, settings, names, layouts, {} if keep else None)

    @cached_property
    def layout(self) -> Layout:
        """The layout of all corpora together."""
        return join_layouts("", self.layouts)

    def starts(self, level: int) -> np.ndarray:
        """First chunk of each corpus at a level, int64 of shape (corpora,)."""
        return np.cumsum([0, *(layout.count(level) for layout in self.layouts)])[:-1]

    @cached_property
    def owners(self) -> np.ndarray:
        """Position of the corpus of every document, int64 of shape (documents,)."""
        return np.repeat(np.arange(len(self.names)), [len(layout.documents) for layout in self.layouts])

    @cached_property
    def position(self) -> dict[tuple[str, str], int]:
        """Position of every document, by corpus and id."""
        names = [self.names[owner] for owner in self.owners]
        return {key: i for i, key in enumerate(zip(names, self.layout.documents, strict=True))}

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
        """BM25 indexes of a level, per corpus."""
        found: list[Bm25Index] = self._once(("bm25", level), lambda: self.weighted(self.counts(level)))
        return found

    def joined_bm25(self, level: int) -> Bm25Index:
        """One BM25 index of a level over all corpora."""
        found: Bm25Index = self._once(("joined bm25", level), lambda: joined(self.weighted(self.counts(level))))
        return found

    @cached_property
    def titles(self) -> Bm25Index:
        """Index of the terms of titles: a term weighs more if fewer titles of all corpora have it."""
        from scipy import sparse

        stored = [self.read("tokens", name) for name in self.names]
        terms = [load_terms(artefact.path("terms.parquet")) for artefact in stored]
        counts = [sparse.load_npz(artefact.path("titles.npz")).tocsc() for artefact in stored]
        total, frequencies = sum(part.shape[0] for part in counts), Counter[str]()
        for own, part in zip(terms, counts, strict=True):
            in_titles = np.diff(part.indptr)
            used = np.flatnonzero(in_titles)
            frequencies.update({own[i]: int(in_titles[i]) for i in used})
        found = []
        for own, part in zip(terms, counts, strict=True):
            df = np.array([frequencies[term] for term in own], np.float64)
            weights = np.log1p((total - df + 0.5) / (df + 0.5)).astype(np.float32)
            found.append(
                Bm25Index.of(own, np.repeat(weights, np.diff(part.indptr)), part.indices, part.indptr, part.shape[0])
            )
        return joined(found)

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if self.kept is None:
            return make()
        with self._alone:
            if key not in self.kept:
                self.kept[key] = make()
            return self.kept[key]

    def weighted(self, parts: Sequence[TermCounts]) -> list[Bm25Index]:
        """BM25 indexes of term counts per corpus, weighted as the settings say."""
        options = self.settings.bm25
        pooled = statistics(parts) if options.statistics == "question_set" else None
        return [Bm25Index(part, pooled or statistics([part]), options.k1, options.b) for part in parts]

    def vectors(self, level: int) -> VectorTable:
        """Vectors of a level."""

        def opened() -> VectorTable:
            stored = [self.read(f"embeddings/level_{level}", name) for name in self.names]
            paths = [artefact.path(n) for artefact in stored for n in artefact.names("bucket")]
            # Rankings compare every question with all of these; coarser ones follow from level 1.
            every = level == 1 or self.settings.encoder.levels == "direct"
            return VectorTable(paths, unpacked=self.kept is not None and every)

        found: VectorTable = self._once(("vectors", level), opened)
        return found

    def texts(self, documents: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Titles and texts of some documents, by position."""
        return {position: (row["title"], row["text"]) for position, row in self.rows(documents).items()}

    def rows(self, documents: Iterable[int], columns: Sequence[str] = ("title", "text")) -> dict[int, dict[str, Any]]:
        """What is stored of some documents, by position.

        Args:
            documents: Positions of the documents.
            columns: Names of columns of the asset `documents`.
        """
        found: dict[int, dict[str, Any]] = {}
        starts, paths = self._once("buckets", self._buckets)
        wanted = np.unique(np.array(list(documents), np.int64))
        bucket = np.searchsorted(starts, wanted, side="right") - 1
        for number in np.unique(bucket).tolist():
            here = wanted[bucket == number]
            table = self._bucket(paths[number], columns)
            found.update(zip(here.tolist(), take(table, here - starts[number]).to_pylist(), strict=True))
        return found

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of all documents, in order, a bucket at a time."""
        for path in self._once("buckets", self._buckets)[1]:
            yield read_table(path, columns)

    def _buckets(self) -> tuple[np.ndarray, list[Path]]:
        """First document of each bucket that has any, and its path."""
        stored = [self.read("documents", name) for name in self.names]
        paths = [artefact.path(bucket) for artefact in stored for bucket in artefact.names("bucket")]
        sizes = np.array([pq.read_metadata(path).num_rows for path in paths], np.int64)
        filled = np.flatnonzero(sizes)
        return (np.cumsum(sizes) - sizes)[filled], [paths[i] for i in filled]

    def _bucket(self, path: Path, columns: Sequence[str]) -> pa.Table:
        opened: OpenTables | None = None if self.kept is None else self._once("tables", OpenTables)
        names = pq.read_schema(path).names if opened is None else opened.read(path).column_names
        # A project made by an earlier version has fewer.
        there = [name for name in columns if name in names]
        return read_table(path, there) if opened is None else opened.read(path).select(there)

    @cached_property
    def _token_starts(self) -> dict[int, np.ndarray]:
        """Start of the tokens of documents, as `pairs` of document and offset; filled on request."""
        return {}

    def tokens_in(self, document: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Tokens of spans: words (runs of letters, digits and underscores) and punctuation marks.

        A token belongs to the span that it starts in, so spans that tile a text partition its tokens.

        Args:
            document: Position of each span's document, shape (spans,).
            start: First character, shape (spans,).
            end: One after the last character, shape (spans,).

        Returns:
            int64 array of shape (spans,).
        """
        wanted, known = np.unique(document).tolist(), self._token_starts
        for position, (_, text) in self.texts(d for d in wanted if d not in known).items():
            known[position] = pairs(np.array(position), token_starts(text))
        line = np.concatenate([known[position] for position in wanted]) if wanted else np.zeros(0, np.int64)
        first, last = (np.searchsorted(line, pairs(document, offset)) for offset in (start, end))
        return last - first

    def point_numbers(self, level: int) -> list[dict[str, int]]:
        """Chunk number by point id of a level's collection, per corpus."""
        import uuid

        def numbers() -> list[dict[str, int]]:
            stored = [self.read(f"collections/level_{level}", name).path("ids.npy") for name in self.names]
            return [{str(uuid.UUID(bytes=row.tobytes())): i for i, row in enumerate(np.load(path))} for path in stored]

        found: list[dict[str, int]] = self._once(("points", level), numbers)
        return found

    def pooling(self, level: int) -> Pooling | None:
        """How vectors of a level follow from those of level 1; None if chunks of the level were encoded."""
        if level == 1 or self.settings.encoder.levels == "direct":
            return None
        found: Pooling = self._once(("pooling", level), lambda: Pooling.of(self.vectors(1), self.layout, level))
        return found

    def exactly_nearest(
        self,
        vectors: np.ndarray,
        level: int,
        k: int,
        groups: np.ndarray | None = None,
        group_of: Sequence[np.ndarray] = (),
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The k nearest chunks of each corpus by products with all vectors, for many questions at a time.

        Args:
            vectors: Of the questions, shape (questions, size).
            level: The level.
            k: How many.
            groups: Group of every question, to find only its chunks; a question below 0 finds none. None finds all.
            group_of: Group of every chunk, per corpus.

        Returns:
            See `merge`.
        """
        owners = np.concatenate(group_of) if groups is not None else None
        table, starts = self.vectors(level), [*self.starts(level).tolist(), self.layout.count(level)]
        found = [(np.full((len(vectors), k), -1, np.int64), np.zeros((len(vectors), k))) for _ in self.names]
        step = max(_SCORES_BYTES // (4 * max(len(table), 1)), 1)
        for first in range(0, len(vectors), step):
            products = table.products(vectors[first : first + step])
            if groups is not None:
                own = groups[first : first + step, None]
                products[(own != owners) | (own < 0)] = -np.inf
            for (chunks, scores), begin, end in zip(found, starts[:-1], starts[1:], strict=True):
                own = products[:, begin:end]
                rows, columns = np.nonzero(greatest(own, k) & (own > -np.inf))
                order = np.lexsort((columns, -own[rows, columns], rows))
                rows, columns = rows[order], columns[order]
                place = first + rows, places(rows)
                chunks[place], scores[place] = columns, own[rows, columns]
        return found

    def nearest(
        self, vector_store: Vectors, vectors: np.ndarray, level: int, k: int, topics: np.ndarray | None = None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The k nearest chunks of each corpus, only of each question's topic if `topics` are given; see `merge`."""
        found = []
        where = None if topics is None else [{"topic": int(topic)} for topic in topics]
        with vector_store.open(f"level_{level}", vectors.shape[1]) as collection:
            for name, number in zip(self.names, self.point_numbers(level), strict=True):
                chunks = np.full((len(vectors), k), -1, np.int64)
                scores = np.zeros((len(vectors), k))
                for row, hits in enumerate(collection.search(name, vectors, k, where)):
                    # Points of chunks that are being replaced right now are in no manifest.
                    known = [(number[identity], score) for identity, score in hits if identity in number]
                    if known:
                        chunks[row, : len(known)], scores[row, : len(known)] = zip(*known, strict=True)
                found.append((chunks, scores))
        return found
