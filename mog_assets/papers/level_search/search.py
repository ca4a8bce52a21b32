"""The searchers of a retrieval, and the term counts of every level."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mog_assets.build.demand import Needs
from mog_assets.config import RetrieverName, Settings
from mog_assets.index.corpora import Corpora
from mog_assets.index.term_counts import TermCounts
from mog_assets.papers.level_search.bm25 import Bm25Index, Statistics
from mog_assets.papers.level_search.searchers import (
    Bm25Searcher,
    DenseSearcher,
    HybridSearcher,
    Remembering,
    Searcher,
)
from mog_assets.papers.level_search.vectors import level_vectors, nearest
from mog_assets.resources.lazy import remembered
from mog_assets.search.groups import Groups
from mog_assets.search.methods import Method
from mog_assets.search.retrieval import Retrieval
from mog_assets.text.chunks import Layout


@remembered
def counts(corpora: Corpora, level: int) -> list[TermCounts]:
    """Count the terms of "title + text" of every chunk of a level: one for each shard, from the counts of level 1."""
    words, titles, first = corpora.words.shards, corpora.titles.shards, 0
    result = []
    for of_pieces, of_titles in zip(words, titles, strict=True):
        documents = len(of_titles.lengths)
        result.append(_summed(of_pieces, of_titles, _part(corpora.layout, first, documents), level))
        first += documents
    return result


def _part(layout: Layout, first: int, count: int) -> Layout:
    """Return the layout of some documents."""
    offsets = layout.offsets[first : first + count + 1]
    spans = layout.spans[offsets[0] : offsets[-1]]
    return Layout(layout.corpus, layout.documents[first : first + count], offsets - offsets[0], spans)


def _summed(of_pieces: TermCounts, of_titles: TermCounts, layout: Layout, level: int) -> TermCounts:
    # A search that is not of this paper needs no scipy.
    from mog_assets.index.tokens import level_counts

    pieces, titles = (_matrix(part) for part in (of_pieces, of_titles))
    # A piece was counted with its title.
    matrix = level_counts(pieces - titles[layout.document_of], titles, layout, level)
    matrix.eliminate_zeros()
    lengths = np.asarray(matrix.sum(axis=1)).ravel().astype(np.int64)
    return TermCounts(list(of_pieces.terms), matrix.indptr.astype(np.int64), matrix.indices, matrix.data, lengths)


def _matrix(part: TermCounts) -> Any:
    from scipy import sparse

    arrays = (part.counts.astype(np.int32), part.indices.astype(np.int32), part.indptr)
    return sparse.csc_matrix(arrays, shape=(len(part.lengths), len(part.terms))).tocsr()


def weighted(corpora: Corpora, parts: Sequence[TermCounts], over: Statistics) -> list[Bm25Index]:
    """Weigh the term counts of texts, as the settings say."""
    return [Bm25Index(part, over, corpora.settings.bm25.k1, corpora.settings.bm25.b) for part in parts]


@remembered
def bm25(corpora: Corpora, level: int) -> list[Bm25Index]:
    """Open the BM25 indexes of a level, one for each shard."""
    return weighted(corpora, counts(corpora, level), Statistics.stored(corpora.statistics, f"level_{level}"))


def searched(method: Method, settings: Settings) -> Needs:
    """Return what a retriever searches."""
    vectors = [f"embeddings/level_{level}" for level in settings.level_range] if method.retriever != "bm25" else []
    return Needs(("documents", "chunks/level_1", "tokens", "bm25/level_1", *vectors), ("statistics",))


@remembered
def searcher(retrieval: Retrieval, retriever: RetrieverName, groups: Groups | None = None) -> Searcher:
    """Search levels by a retriever; the same hits are found once.

    Args:
        retrieval: The questions.
        retriever: BM25, vectors, or both.
        groups: Limits each question to some chunks.
    """
    if retriever == "hybrid":
        both = [searcher(retrieval, "bm25", groups), searcher(retrieval, "dense", groups)]
        return Remembering(HybridSearcher(both))
    corpora, limits = retrieval.corpora, within(retrieval, groups)
    if retriever == "bm25":
        questions, chunks = (limits.questions, limits.chunks) if limits else (None, None)
        return Remembering(Bm25Searcher(retrieval.terms, partial(bm25, corpora), corpora.starts, questions, chunks))

    def find(vectors: np.ndarray, level: int, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        options = (limits.questions, limits.chunks(level)) if limits else ()
        return nearest(level_vectors(corpora, level), vectors, k, *options)

    return Remembering(DenseSearcher(retrieval.vectors, find, corpora.starts))


def within(retrieval: Retrieval, groups: Groups | None) -> Groups | None:
    """Leave the chunks of documents that are not allowed out of groups."""
    if retrieval.allowed is None:
        return groups

    def chunks(level: int) -> list[np.ndarray]:
        layouts = retrieval.corpora.layouts
        every = groups.chunks(level) if groups else [np.zeros(layout.count(level), np.int64) for layout in layouts]
        return limited(layouts, level, every, retrieval.allowed)

    return Groups(groups.questions if groups else np.zeros(len(retrieval.queries), np.int64), chunks)


def limited(
    layouts: Sequence[Layout], level: int, groups: Sequence[np.ndarray], allowed: np.ndarray | None
) -> list[np.ndarray]:
    """Return groups of chunks per corpus, −1 for those of documents that are not allowed.

    Args:
        layouts: Of the corpora.
        level: Of the chunks.
        groups: Of every chunk, per corpus.
        allowed: See `Retrieval.allowed`.
    """
    if allowed is None:
        return list(groups)
    parts, first = [], 0
    for layout, group in zip(layouts, groups, strict=True):
        pieces, _ = layout.covered(np.arange(layout.count(level)), level)
        parts.append(np.where(allowed[first + layout.document_of[pieces]], group, -1))
        first += len(layout.documents)
    return parts
