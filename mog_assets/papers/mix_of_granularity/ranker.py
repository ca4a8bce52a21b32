"""Passages as the paper has them: levels or hops with equal weights, those of a router, or those of the soft labels.

Chunks of several granularities give scores to the pieces that they hold; a piece's score is their weighted sum, and
the passage that is emitted is the chunk of one granularity around it (Zhong et al. 2024, section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mog_assets.config import RetrieverName
from mog_assets.index.corpora import Corpora
from mog_assets.papers.level_search.levels import level_passages
from mog_assets.papers.level_search.search import limited, searcher
from mog_assets.papers.level_search.searchers import Bm25Searcher, LevelMatches, Remembering, Searcher
from mog_assets.papers.mix_of_granularity import router
from mog_assets.papers.mix_of_granularity.mixing import (
    Granularities,
    RankedChunks,
    candidates,
    emission_levels,
    emit,
    ranked,
)
from mog_assets.papers.mix_of_granularity.settings import GRAPH
from mog_assets.resources.arrays import pairs, ranges
from mog_assets.resources.lazy import cached_property, remembered
from mog_assets.search.depth import DEPTH
from mog_assets.search.groups import Groups
from mog_assets.search.passages import Passages
from mog_assets.search.retrieval import Retrieval
from mog_assets.text.chunks import Layout

if TYPE_CHECKING:
    from mog_assets.papers.mix_of_granularity.graph.search import Neighbourhoods

# Key of the router of each kind of method.
ROUTERS = {"mog-paper": "router_paper", "mogg-paper": "hop_router_paper"}


@dataclass(frozen=True)
class LevelChunks:
    """Chunks of the levels of a layout, made of level-1 chunks.

    The last chunk of a short document is promoted to every coarser level and counts at each (Zhong et al. 2024).

    Attributes:
        layout: Of all corpora.
        count: Number of levels.
        first: First chunk of each corpus at a level.
    """

    layout: Layout
    count: int
    first: Callable[[int], np.ndarray]

    def starts(self, granularity: int) -> np.ndarray:
        """See `Granularities`."""
        return self.first(granularity)

    def spread(self, matches: LevelMatches, granularity: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Granularities`."""
        first, last = self.layout.covered(matches.chunk, granularity)
        return np.repeat(np.arange(len(first)), last - first), ranges(first, last)

    def containing(self, pieces: np.ndarray, granularity: int) -> np.ndarray:
        """See `Granularities`."""
        return self.layout.containing(pieces, granularity)

    def passages(self, matches: LevelMatches, granularities: np.ndarray) -> Passages:
        """Return one span each: see `Chunks`."""
        return level_passages(self.layout, matches, granularities)


class Chunks(Granularities, Protocol):
    """Chunks that can be converted to passages."""

    def passages(self, matches: LevelMatches, granularities: np.ndarray) -> Passages:
        """Return documents and spans of hits, given the granularity of each."""


@dataclass(frozen=True)
class Ranker:
    """Ranks passages by every method of one retriever; shared work is done once.

    Attributes:
        searcher: The retriever.
        chunks: The chunks that it finds.
        k_r: Chunks per granularity and corpus that enter the mix.
    """

    searcher: Searcher
    chunks: Chunks
    k_r: int

    @cached_property
    def _candidates(self) -> RankedChunks:
        matches = [
            self.searcher.search(granularity, DEPTH).best_per_corpus(self.k_r, self.chunks.starts(granularity))
            for granularity in range(1, self.chunks.count + 1)
        ]
        return candidates(matches, self.chunks)

    @cached_property
    def _equally(self) -> tuple[np.ndarray, np.ndarray]:
        return ranked(self._candidates, np.ones((self._questions, self.chunks.count)))

    @property
    def _questions(self) -> int:
        return int(self._candidates.question.max(initial=-1)) + 1

    def of_one(self, granularity: int) -> Passages:
        """Return the best chunks of a granularity for every question."""
        matches = self.searcher.search(granularity, DEPTH)
        return self.chunks.passages(matches, np.full(len(matches.chunk), granularity))

    def equally(self, granularity: int = 1) -> Passages:
        """Return the passages of every question with equal weights: chunks of a granularity."""
        return self._emitted(*self._equally, np.full(self._questions, granularity))

    def weighted(self, weights: np.ndarray) -> Passages:
        """Return the passages of every question: chunks of the granularity that its weights choose.

        Args:
            weights: float array of shape (questions, granularities); a row of zeros gives no passage.
        """
        return self._emitted(*ranked(self._candidates, weights), emission_levels(weights))

    def _emitted(self, order: np.ndarray, scores: np.ndarray, granularities: np.ndarray) -> Passages:
        return self.chunks.passages(*emit(self._candidates, order, scores, granularities, self.chunks))


@remembered
def level_ranker(retrieval: Retrieval, retriever: RetrieverName | None, groups: Groups | None = None) -> Ranker:
    """Return the ranker of a retriever over levels."""
    assert retriever is not None
    corpora = retrieval.corpora
    chunks = LevelChunks(corpora.layout, corpora.settings.levels, corpora.starts)
    return Ranker(searcher(retrieval, retriever, groups), chunks, corpora.settings.k_r)


@remembered
def hop_ranker(retrieval: Retrieval, groups: Groups | None = None) -> Ranker:
    """Return the ranker of BM25 over neighbourhoods of the sentence graph."""
    around = neighbourhoods(retrieval.corpora)
    distinct = sorted({term for query in retrieval.terms for term in query})
    limits = groups
    if groups is None and retrieval.allowed is not None:
        limits = Groups(np.zeros(len(retrieval.queries), np.int64), lambda level: [])
    of_nodes = partial(_node_groups, retrieval, around, groups)
    searcher = Bm25Searcher(
        retrieval.terms,
        lambda hop: around.bm25(hop, distinct),
        around.starts,
        None if limits is None else limits.questions,
        None if limits is None else lambda hop: of_nodes(),
    )
    return Ranker(Remembering(searcher), around, retrieval.corpora.settings.k_r)


def _node_groups(retrieval: Retrieval, around: Neighbourhoods, groups: Groups | None) -> list[np.ndarray]:
    """Return groups of nodes per corpus: those of the level-1 chunks in which they begin, also for neighbourhoods."""
    if groups is None:
        parts = [np.zeros(layout.count(1), np.int64) for layout in around.layouts]
    else:
        parts = []
        for chunks, nodes, group in zip(retrieval.corpora.layouts, around.layouts, groups.chunks(1), strict=True):
            # The spans of a document are in ascending order.
            starts, begin = (pairs(layout.document_of, layout.spans[:, 0]) for layout in (chunks, nodes))
            parts.append(group[np.searchsorted(starts, begin, side="right") - 1])
    return limited(around.layouts, 1, parts, retrieval.allowed)


@remembered
def neighbourhoods(corpora: Corpora) -> Neighbourhoods:
    """Open the sentence graphs of corpora."""
    # Here, because it imports scipy.
    from mog_assets.papers.mix_of_granularity.graph.search import Neighbourhoods

    return Neighbourhoods.open(corpora)


@remembered
def router_weights(retrieval: Retrieval, kind: str) -> np.ndarray:
    """Return the weights that a router gives each question.

    Args:
        retrieval: The questions.
        kind: `mog-paper` or `mogg-paper`.

    Returns:
        float array of shape (questions, granularities).

    Raises:
        MogError: the router is damaged, or belongs to another encoder or other granularities.
    """
    settings = retrieval.corpora.settings
    count = settings.levels if kind == "mog-paper" else GRAPH.of(settings).hops + 1
    weights = router.open_router(retrieval.corpora.read(ROUTERS[kind], None), retrieval.index.fingerprint(), count)
    return router.predict(weights, retrieval.vectors)


@remembered
def label_weights(retrieval: Retrieval) -> np.ndarray:
    """Return the soft labels of measured questions, float array of shape (questions, levels); 0 for those without."""
    # A search does not need pandas.
    import pandas as pd

    table = pd.read_parquet(retrieval.corpora.read("soft_labels", None).path("labels.parquet"))
    table = table[table["question_set"] == retrieval.question_set]
    labels = dict(zip(table["question"], table["label"], strict=True))
    none = np.zeros(retrieval.corpora.settings.levels)
    weights = [np.asarray(labels.get(question.id, none), float) for question in retrieval.measured]
    return np.array(weights).reshape(-1, len(none))
