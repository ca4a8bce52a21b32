"""What the ways of answering get from retrieval: passages with their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mog_assets.answering.answerers import Retrieve, Retrieved
from mog_assets.answering.roles import Passage
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.methods import Method, Passages
from mog_assets.routing.retrieve import Retrieval

# Spans of one passage that lie apart.
_GAP = " … "


def retrieve_by(method: Method, opened: Retrieval) -> Retrieve:
    """Retrieval by a method, for any queries.

    Args:
        method: Its `topics` is not asked: whoever calls says whether passages are of the query's topic.
        opened: The corpora; its own queries are not asked.
    """

    def retrieve(queries: Sequence[str], k: int, topics: bool) -> list[Retrieved]:
        retrieval = opened.again(queries)
        used = method.within(topics)
        found = retrieval.rank(used, k)
        found = found.at(found.rank < k)
        passages = texts(retrieval.corpora, found, len(queries))
        if not topics:
            return [Retrieved(own) for own in passages]
        labels, back = retrieval.topic_model.labels, retrieval.fell_back(used, k)
        numbers = retrieval.topics[0].tolist()
        return [
            Retrieved(own, topic, labels[topic], bool(fell))
            for own, topic, fell in zip(passages, numbers, back, strict=True)
        ]

    return retrieve


def given(passages: Sequence[Sequence[Passage]]) -> Retrieve:
    """A retrieval that gives each query, in order, passages that were chosen beforehand."""

    def retrieve(queries: Sequence[str], k: int, topics: bool) -> list[Retrieved]:
        return [Retrieved(own) for _, own in zip(queries, passages, strict=True)]

    return retrieve


def texts(corpora: Corpora, found: Passages, questions: int) -> list[list[Passage]]:
    """The passages of every question with their texts, best first.

    A passage of several spans holds all of them, in order; it is named by the document of its first.
    """
    held = corpora.texts(np.unique(found.document).tolist())
    by_question: list[list[Passage]] = [[] for _ in range(questions)]
    last = (-1, -1)
    columns = (found.question, found.rank, found.document, found.start, found.end, found.level)
    for question, rank, document, start, end, level in zip(*(column.tolist() for column in columns), strict=True):
        title, text = held[document]
        span = (corpora.names[corpora.owners[document]], corpora.layout.documents[document], start, end)
        own, piece = by_question[question], text[start:end]
        if (question, rank) == last:
            before = own.pop()
            # A reader would otherwise take it for the document before.
            head = "" if before.spans[-1][:2] == span[:2] else f"{title}: "
            joined = f"{before.text}{_GAP}{head}{piece}"
            own.append(replace(before, text=joined, spans=(*before.spans, span)))
        else:
            own.append(Passage(span[0], span[1], title, piece, (span,), level))
        last = (question, rank)
    return by_question
