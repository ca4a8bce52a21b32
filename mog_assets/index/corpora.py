"""Open the stored assets of the corpora of a question set, for searching."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.config import Settings
from mog_assets.index.analysis import Analysis
from mog_assets.index.bm25 import Bm25Index, Statistics, TermCounts, joined, mapped_counts
from mog_assets.index.layouts import join_layouts, open_layout
from mog_assets.index.neighbours import Neighbours
from mog_assets.index.piece_counts import PieceCounts, Sections
from mog_assets.index.postings import Postings, Presence, Saturation, Words
from mog_assets.index.shards import open_counts, open_titles
from mog_assets.index.statistics import StoredStatistics, idf
from mog_assets.index.vectors import Pooling, VectorTable
from mog_assets.resources.arrays import pairs
from mog_assets.resources.tables import OpenTables, read_table
from mog_assets.text.chunks import Layout
from mog_assets.text.sentences import token_starts

Read = Callable[[str, str | None], Any]
"""Reads an asset of a corpus, or one of all corpora, from the store: an artefact with its manifest and files."""

# Pieces from which a question is no longer compared with all texts: half the time, a quarter of the memory, and a first
# answer three times as fast there (docs/growth.md).
LARGE = 100_000

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to unit vectors."""


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
        """Term counts of a level, per shard of each corpus."""
        return [
            part
            for name in self.names
            for part in open_counts(self.read(f"bm25/level_{level}", name), self.read("tokens", name))
        ]

    @cached_property
    def shard_owners(self) -> list[int]:
        """Position of the corpus of every shard."""
        return [number for number, name in enumerate(self.names) for _ in self.read("tokens", name).names("terms_")]

    @property
    def indexed(self) -> bool:
        """Whether questions are answered from indexes, as the settings say or fits the number of pieces."""
        named = self.settings.ranking.candidates
        return named == "indexed" or (named == "auto" and self.layout.count(1) >= LARGE)

    def bm25(self, level: int) -> Sequence[Words]:
        """BM25 indexes of a level, per shard of each corpus."""

        def opened() -> Sequence[Words]:
            if not self._weighs_late(level):
                return self._indexes(level)
            over = self.statistics().of("level_1")
            return [Postings([part], over, self._saturation) for part in self._mapped]

        indexes: Sequence[Words] = self.once(("bm25", level), opened)
        return indexes

    def _weighs_late(self, level: int) -> bool:
        """Whether postings are weighed when a question is asked: many questions pay for weighing all of them."""
        return level == 1 and self.kept is not None and self.indexed

    def _indexes(self, level: int) -> list[Bm25Index]:
        return self.weighted(self.counts(level), self.statistics().of(f"level_{level}"))

    def joined_bm25(self, level: int) -> Words:
        """One BM25 index of a level over all corpora."""
        if self._weighs_late(level):
            return self.piece_counts.words
        index: Bm25Index = self.once(("joined bm25", level), lambda: joined(self._indexes(level)))
        return index

    @cached_property
    def _mapped(self) -> list[TermCounts]:
        """Mapped term counts of level 1, per shard of each corpus."""
        stored = [(self.read("bm25/level_1", name), self.read("tokens", name)) for name in self.names]
        return [part for counts, tokens in stored for part in open_counts(counts, tokens, mapped_counts)]

    @property
    def _saturation(self) -> Saturation:
        return Saturation(self.settings.bm25.k1, self.settings.bm25.b)

    @cached_property
    def analysis(self) -> Analysis:
        """How questions are analysed that are asked of these corpora."""
        return Analysis(self.read, self.names)

    @cached_property
    def titles(self) -> Words:
        """Terms of titles: a term weighs more if fewer titles of all corpora have it."""
        if self.indexed:
            return self.title_postings
        over, indexes = self.statistics().of("title"), []
        for part in (part for name in self.names for part in open_titles(self.read("tokens", name))):
            weights = np.repeat(idf(over.chunks, over.frequencies_of(part.terms)).astype(np.float32), part.frequencies)
            indexes.append(Bm25Index.of(part.terms, weights, part.indices, part.indptr, len(part.lengths)))
        return joined(indexes)

    @cached_property
    def title_postings(self) -> Postings:
        """As `titles`, mapped."""
        parts = [part for name in self.names for part in open_titles(self.read("tokens", name), mapped_counts)]
        return Postings(parts, self.statistics().of("title"), Presence())

    @cached_property
    def title_sizes(self) -> np.ndarray:
        """Different words of the title of every document, int64 of shape (documents,)."""
        return self.titles.sizes

    @cached_property
    def sections(self) -> Sections:
        """Parts of documents whose texts are compared with a question together."""
        return Sections.of(self.layout, self.settings.levels)

    @cached_property
    def piece_counts(self) -> PieceCounts:
        """Term counts of level 1 and of titles, over all corpora, with their weights."""
        words = Postings(self._mapped, self.statistics().of("level_1"), self._saturation)
        return PieceCounts(self.sections, words, self.title_postings)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` gives; it stays open, under a key, if indexes do."""
        if self.kept is None:
            return make()
        with self._alone:
            if key not in self.kept:
                self.kept[key] = make()
            return self.kept[key]

    def statistics(self, key: str = "statistics") -> StoredStatistics:
        """The statistics that weigh terms: those of an asset, `statistics` by default."""
        if key not in self._statistics:
            self._statistics[key] = StoredStatistics(self.read(key, None).path, self.names)
        return self._statistics[key]

    @cached_property
    def _statistics(self) -> dict[str, StoredStatistics]:
        return {}

    def weighted(self, parts: Sequence[TermCounts], over: Statistics) -> list[Bm25Index]:
        """BM25 indexes of term counts: of the texts of each corpus, or of shards of it."""
        return [Bm25Index(part, over, self.settings.bm25.k1, self.settings.bm25.b) for part in parts]

    def vectors(self, level: int) -> VectorTable:
        """Vectors of a level."""

        def opened() -> VectorTable:
            # Rankings compare every question with all of level 1; others follow from it.
            paths = self._bucket_files("embeddings/level_1")
            if level == 1:
                return VectorTable(paths, self.kept is not None)
            return VectorTable(paths, layout=self.layout, level=level)

        table: VectorTable = self.once(("vectors", level), opened)
        return table

    @cached_property
    def neighbours(self) -> list[Neighbours]:
        """Vectors of level 1 of every shard of each corpus, with their graphs."""
        shards, counts = [], iter(map(len, self.vectors(1).parts))
        for name in self.names:
            graphs, vectors = self.read("neighbours", name), self.read("embeddings/level_1", name)
            for shard, buckets in self.read("tokens", name).manifest.info["shards"].items():
                paths = [vectors.path(bucket.replace(".parquet", ".npy")) for bucket in buckets]
                table = partial(VectorTable, paths, self.kept is not None)
                files = graphs.names(f"graph_{shard}")
                count = sum(islice(counts, len(buckets)))
                shards.append(Neighbours(graphs.path(files[0]) if files else None, table, count))
        return shards

    def _bucket_files(self, key: str) -> list[Path]:
        stored = [self.read(key, name) for name in self.names]
        return [artefact.path(name) for artefact in stored for name in artefact.names("bucket")]

    def texts(self, documents: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Titles and texts of some documents, by position."""
        return {position: (row["title"], row["text"]) for position, row in self.rows(documents).items()}

    def rows(self, documents: Iterable[int], columns: Sequence[str] = ("title", "text")) -> dict[int, dict[str, Any]]:
        """What is stored of some documents, by position.

        Args:
            documents: Positions of the documents.
            columns: Names of columns of the asset `documents`.
        """
        metadata: dict[int, dict[str, Any]] = {}
        starts, paths = self._buckets
        opened: OpenTables = self.once("tables", OpenTables)
        wanted = np.unique(np.array(list(documents), np.int64))
        bucket = np.searchsorted(starts, wanted, side="right") - 1
        for number in np.unique(bucket).tolist():
            here = wanted[bucket == number]
            table = opened.take(paths[number], here - starts[number], columns)
            metadata.update(zip(here.tolist(), table, strict=True))
        return metadata

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of all documents, in order, a bucket at a time."""
        for path in self._buckets[1]:
            yield read_table(path, columns)

    @cached_property
    def sizes(self) -> tuple[np.ndarray, list[str]]:
        """Characters of every document, int64 of shape (documents,), and the code of its language."""
        tables = list(self.tables(["characters", "language"]))
        characters = [table["characters"].to_numpy() for table in tables]
        languages = [code for table in tables for code in table["language"].to_pylist()]
        return np.concatenate(characters or [np.empty(0, np.int64)]), languages

    @cached_property
    def _buckets(self) -> tuple[np.ndarray, list[Path]]:
        """First document of each bucket that has any, and its path."""
        stored = [self.read("documents", name) for name in self.names]
        paths = [artefact.path(bucket) for artefact in stored for bucket in artefact.names("bucket")]
        sizes = np.array([pq.read_metadata(path).num_rows for path in paths], np.int64)
        filled = np.flatnonzero(sizes)
        return (np.cumsum(sizes) - sizes)[filled], [paths[i] for i in filled]

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
        wanted, starts = np.unique(document).tolist(), self._token_starts
        for position, (_, text) in self.texts(d for d in wanted if d not in starts).items():
            starts[position] = pairs(np.array(position), token_starts(text))
        line = np.concatenate([starts[position] for position in wanted]) if wanted else np.zeros(0, np.int64)
        first, last = (np.searchsorted(line, pairs(document, offset)) for offset in (start, end))
        return last - first

    def pooling(self, level: int) -> Pooling:
        """How vectors of a level above the first follow from those of level 1."""

        def opened() -> Pooling:
            return Pooling.of(self.layout, level, self._bucket_files(f"embeddings/level_{level}"))

        pooling: Pooling = self.once(("pooling", level), opened)
        return pooling
