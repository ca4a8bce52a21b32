"""Retrieval for answering methods: passages with their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mog_assets.answer.answerers import Retrieve, RetrievedPassages
from mog_assets.answer.roles import Passage
from mog_assets.config.budget import Budget
from mog_assets.index.corpora import Corpora
from mog_assets.resources.arrays import ranges
from mog_assets.search.methods import Method, ungrouped
from mog_assets.search.passages import GAP, Passages
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


def texts(
    corpora: Corpora, passages: Passages, questions: int, rows: Mapping[int, Mapping[str, Any]] | None = None
) -> list[list[Passage]]:
    """The passages of every question with their texts, best first.

    A passage of several spans contains all of them, in order, and is named after the document of the first.

    Args:
        corpora: The corpora.
        passages: The passages.
        questions: How many questions there are.
        rows: Result of `Corpora.rows` for the documents of the passages, if it is known.
    """
    rows = corpora.rows(passages.document) if rows is None else rows
    documents = {position: (row["title"], row["text"]) for position, row in rows.items()}
    by_question: list[list[Passage]] = [[] for _ in range(questions)]
    last = (-1, -1)
    columns = (passages.question, passages.rank, passages.document, passages.start, passages.end, passages.level)
    for question, rank, document, start, end, level in zip(*(column.tolist() for column in columns), strict=True):
        title, text = documents[document]
        span = (corpora.names[corpora.owners[document]], corpora.layout.documents[document], start, end)
        passages_of, piece = by_question[question], text[start:end]
        if (question, rank) == last:
            before = passages_of.pop()
            # Otherwise a reader would take it for part of the previous document.
            head = "" if before.spans[-1][:2] == span[:2] else f"{title}: "
            joined = f"{before.text}{GAP}{head}{piece}"
            passages_of.append(replace(before, text=joined, spans=(*before.spans, span)))
        else:
            passages_of.append(Passage(span[0], span[1], title, piece, (span,), level))
        last = (question, rank)
    return by_question
