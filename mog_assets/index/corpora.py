"""Open the stored assets of the corpora of a question set, for searching."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mog_assets.config import Settings
from mog_assets.index.analysis import Analysis
from mog_assets.index.layouts import join_layouts, open_layout
from mog_assets.index.neighbours import open_neighbours, together
from mog_assets.index.postings import Postings, Terms
from mog_assets.index.statistics import StoredStatistics
from mog_assets.index.stored_documents import StoredDocuments
from mog_assets.index.term_counts import open_counts, open_tables, open_titles
from mog_assets.index.vectors import Neighbours, VectorTable
from mog_assets.resources.arrays import pairs
from mog_assets.resources.tables import read_table
from mog_assets.text.chunks import Layout
from mog_assets.text.cuts import token_starts

Read = Callable[[str, str | None], Any]
"""Reads an asset of a corpus, or one of all corpora, from the store: an artefact with its manifest and files."""

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to unit vectors."""


@dataclass(frozen=True, eq=False)
class Corpora:
    """The corpora of a question set, in its order.

    Args:
        read: Reads an asset of a corpus.
        settings: Of the project.
        names: The corpora.
        layouts: Per corpus.

    Documents and chunks of all corpora are numbered in the order of the corpora.
    """

    read: Read
    settings: Settings
    names: Sequence[str]
    layouts: Sequence[Layout]

    @classmethod
    def open(cls, read: Read, settings: Settings, names: Sequence[str]) -> Corpora:
        """Open layouts; everything else is opened when needed.

        Args:
            read: Reads an asset of a corpus.
            settings: Of the project.
            names: The corpora.
        """
        layouts = [open_layout(name, read("documents", name), read("chunks/level_1", name)) for name in names]
        return cls(read, settings, names, layouts)

    @cached_property
    def layout(self) -> Layout:
        """The layout of all corpora together."""
        return join_layouts("", self.layouts)

    def starts(self, level: int) -> np.ndarray:
        """Return first chunk of each corpus at a level, int64 of shape (corpora,)."""
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

    @cached_property
    def terms(self) -> Terms:
        """The vocabularies of all shards."""
        return Terms([table for name in self.names for table in open_tables(self.read("tokens", name))])

    @cached_property
    def words(self) -> Postings:
        """Postings of level-1 pieces, each with its title."""
        stored = [(self.read("bm25/level_1", name), self.read("tokens", name)) for name in self.names]
        return Postings([part for counts, tokens in stored for part in open_counts(counts, tokens)], self.terms)

    @cached_property
    def titles(self) -> Postings:
        """Postings of the titles of documents."""
        return Postings([part for name in self.names for part in open_titles(self.read("tokens", name))], self.terms)

    @cached_property
    def analysis(self) -> Analysis:
        """Return how questions are analysed that are asked of these corpora."""
        return Analysis(self.read, self.names, lambda: self.terms)

    @cached_property
    def statistics(self) -> StoredStatistics:
        """The statistics that weigh terms."""
        return StoredStatistics(self.read("statistics", None).path, self.names)

    @cached_property
    def vectors(self) -> VectorTable:
        """Vectors of level 1."""
        return VectorTable(self.bucket_files("embeddings/level_1"))

    @cached_property
    def neighbours(self) -> list[Neighbours]:
        """The near vectors of level 1, in order."""
        shards, counts = [], iter(self.vectors.counts)
        for name in self.names:
            stored = self.read("neighbours", name)
            paths = {Path(file).stem.rpartition("_")[2]: stored.path(file) for file in stored.names()}
            for shard, buckets in self.read("tokens", name).manifest.info["shards"].items():
                shards.append(open_neighbours(paths[shard], sum(islice(counts, len(buckets)))))
        return together(shards)

    def bucket_files(self, key: str) -> list[Path]:
        """Return files of an asset, one for each bucket, in order."""
        stored = [self.read(key, name) for name in self.names]
        return [artefact.path(name) for artefact in stored for name in artefact.names("bucket")]

    @cached_property
    def stored(self) -> StoredDocuments:
        """Return what is stored of documents."""
        return StoredDocuments(self.bucket_files("documents"))

    def texts(self, documents: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return titles and texts of some documents, by position."""
        return {position: (row["title"], row["text"]) for position, row in self.stored.rows(documents).items()}

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Return some columns of all documents, in order, a bucket at a time."""
        for path in self.stored.paths:
            yield read_table(path, columns)

    @cached_property
    def sizes(self) -> tuple[np.ndarray, list[str]]:
        """Characters of every document, int64 of shape (documents,), and the code of its language."""
        tables = list(self.tables(["characters", "language"]))
        characters = [table["characters"].to_numpy() for table in tables]
        languages = [code for table in tables for code in table["language"].to_pylist()]
        return np.concatenate(characters or [np.empty(0, np.int64)]), languages

    @cached_property
    def _token_starts(self) -> dict[int, np.ndarray]:
        """Start of the tokens of documents, as `pairs` of document and offset; filled on request."""
        return {}

    def tokens_in(self, document: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return tokens of spans: words (runs of letters, digits and underscores) and punctuation marks.

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

    @cached_property
    def pooled_lengths(self) -> dict[int, np.ndarray]:
        """By level above the first, what `vectors.pool` divides the sum of each chunk's pieces by: float32."""
        files = {level: self.bucket_files(f"embeddings/level_{level}") for level in self.settings.level_range[1:]}
        return {j: np.concatenate([np.zeros(0, np.float32), *map(np.load, paths)]) for j, paths in files.items()}
