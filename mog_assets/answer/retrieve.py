"""Retrieval for answering methods: passages with their texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.answer.answerers import Retrieve, RetrievedPassages
from mog_assets.answer.roles import Passage
from mog_assets.config.budget import Budget
from mog_assets.index.corpora import Corpora
from mog_assets.resources.arrays import ranges
from mog_assets.search.methods import Method, ungrouped
from mog_assets.search.passages import texts
from mog_assets.search.retrieval import Retrieval

# The budget is what so many passages share.
PASSAGES = 5


def retrieve_by(method: Method, opened: Retrieval) -> Retrieve:
    """Retrieval by a method, for any queries.

    A ranking gives passages of any length: as many as fit into the budget of the settings, for each `PASSAGES` that are
    asked for.
    """
    budget = Budget.of(opened.corpora.settings.budget)

    def retrieve(
        queries: Sequence[str], k: int, limit: str, read: Sequence[Sequence[Passage]] = ()
    ) -> list[RetrievedPassages]:
        retrieval = opened.again(queries)
        used = retrieval.resolved(method.within(limit))
        if used.ranking and any(read):
            ranked = retrieval.passages_after(*_pieces(opened.corpora, read), budget.share(k, PASSAGES))
        elif used.ranking:
            ranked = retrieval.passages(used, budget=budget.share(k, PASSAGES))
        else:
            ranked = retrieval.rank(used, k)
            ranked = ranked.at(ranked.rank < k)
        passages = texts(retrieval.corpora, ranked, len(queries))
        return [
            RetrievedPassages(passages_of, {name: value for name, value in group.items() if name in ungrouped()})
            for passages_of, group in zip(passages, retrieval.grouped(used, k), strict=True)
        ]

    return retrieve


def given(passages: Sequence[Sequence[Passage]]) -> Retrieve:
    """A retrieval that returns preselected passages for each query, in order."""

    def retrieve(
        queries: Sequence[str], k: int, limit: str, read: Sequence[Sequence[Passage]] = ()
    ) -> list[RetrievedPassages]:
        return [RetrievedPassages(passages_of) for _, passages_of in zip(queries, passages, strict=True)]

    return retrieve


def _pieces(corpora: Corpora, read: Sequence[Sequence[Passage]]) -> tuple[np.ndarray, np.ndarray]:
    """Query and piece of passages that were read, in their order."""
    spans = [
        (query, corpora.position[corpus, document], start, end)
        for query, passages in enumerate(read)
        for passage in passages
        for corpus, document, start, end in passage.spans
    ]
    query, document, start, end = np.array(spans, np.int64).reshape(-1, 4).T
    first, last = corpora.layout.pieces(document, start, end)
    return np.repeat(query, last - first), ranges(first, last)
