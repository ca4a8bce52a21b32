"""Term counts of the texts of shards, mapped from their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mog_assets.index.term_tables import TermTable
from mog_assets.resources.store import Artefact
from mog_assets.resources.tensors import mapped


@dataclass(frozen=True)
class TermCounts:
    """Counts of one kind of text of one shard of a corpus, by column of a sparse matrix of shape (texts, terms).

    Attributes:
        terms: Sorted; those of stored counts are the vocabulary of the shard, a `TermTable`.
        indptr, indices, counts: CSC arrays.
        lengths: Tokens of every text.
    """

    terms: Sequence[str]
    indptr: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    @property
    def frequencies(self) -> np.ndarray:
        """int64 array of shape (terms,): in how many texts a term occurs."""
        return np.diff(self.indptr)


def mapped_counts(path: Path, terms: Sequence[str]) -> TermCounts:
    """Open counts in the types that they are stored in; entries are read where they are used."""
    stored = mapped(path)
    indptr = np.concatenate([[0], np.cumsum(stored["frequencies"], dtype=np.int64)])
    return TermCounts(terms, indptr, *(stored[name] for name in ("chunks", "counts", "lengths")))


def open_tables(tokens: Artefact, kind: str = "terms_") -> list[TermTable]:
    """Open the vocabulary of each shard of a corpus, or its words as they are written: `words_`."""
    return [TermTable(tokens.path(name)) for name in tokens.names(kind)]


def open_counts(counts: Artefact, tokens: Artefact) -> list[TermCounts]:
    """Open the term counts of level 1 of a corpus, per shard: `bm25/level_1` with the vocabularies of `tokens`."""
    return _opened(counts, tokens, "counts")


def open_titles(tokens: Artefact) -> list[TermCounts]:
    """Open the term counts of the titles of a corpus, per shard."""
    return _opened(tokens, tokens, "titles")


def _opened(stored: Artefact, tokens: Artefact, what: str) -> list[TermCounts]:
    shards = [name.removeprefix("terms_").partition(".")[0] for name in tokens.names("terms_")]
    tables = zip(shards, open_tables(tokens), strict=True)
    return [mapped_counts(stored.path(f"{what}_{shard}.safetensors"), table) for shard, table in tables]
