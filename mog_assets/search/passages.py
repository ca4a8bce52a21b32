"""Ranked passages of questions, as documents and spans: pieces in order until a budget is full, neighbours joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.resources.arrays import pairs, ranges, running
from mog_assets.text.chunks import Layout

# Sizes of spans: of the document, start and end of each, arrays of shape (spans,).
Sizes = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
# Separates the spans of one passage.
GAP = " … "
# So many pieces of a question are sized at a time.
_BLOCK = 32


@dataclass(frozen=True)
class Passages:
    """Ranked passages of questions: one row per span, by question and rank; spans of a passage in reading order.

    Attributes:
        question: Position of the question.
        rank: Of the passage, from 0.
        document: Position of the document over all corpora, in their order.
        start, end: Offsets in its text, in characters.
        level: Level of the chunk, or another granularity of the method.
        score: The ranking score of the passage.
    """

    question: np.ndarray
    rank: np.ndarray
    document: np.ndarray
    start: np.ndarray
    end: np.ndarray
    level: np.ndarray
    score: np.ndarray

    def at(self, rows: np.ndarray) -> Passages:
        """Return some rows: a mask, or positions in order."""
        return Passages(*(getattr(self, field.name)[rows] for field in fields(self)))

    def joined(self, others: Passages) -> Passages:
        """Return these and passages of other questions, by question."""
        order = np.argsort(np.concatenate([self.question, others.question]), kind="stable")
        columns = (field.name for field in fields(self))
        return Passages(*(np.concatenate([getattr(self, n), getattr(others, n)])[order] for n in columns))


def characters(document: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return sizes of spans in characters."""
    return end - start


def joined(
    passages: Passages, layout: Layout, budget: int | None = None, k: int | None = None, sizes: Sizes = characters
) -> Passages:
    """Join ranked pieces to passages of contiguous text that never repeat any.

    Pieces are taken in ranked order, those of a chunk in reading order. One that stands next to a piece taken before
    becomes part of its passage, and two passages that meet become one. Passages stand in the order of their best piece.
    The level of a passage is the finest whose chunks have as many pieces: granularity is what was chosen, not what was
    asked for.

    Args:
        passages: Ranked pieces or chunks of questions, each one span.
        layout: Of all corpora.
        budget: Most of a question's passages; the best piece is taken whatever its size.
        k: Most passages of a question: pieces are taken until one would begin another.
        sizes: What the budget counts.
    """
    taken: list[tuple[int, int, int, int, float]] = []
    bounds = np.searchsorted(passages.question, np.arange(int(passages.question.max(initial=-1)) + 2)).tolist()
    for question, (begin, end) in enumerate(pairwise(bounds)):
        chosen = _taken(_pieces(passages, begin, end, layout, sizes), budget, k)
        rank = {piece: number for number, piece in enumerate(chosen)}
        runs: list[tuple[int, int, int]] = []
        for piece in sorted(chosen):
            best, first = rank[piece], piece
            if piece - 1 in chosen and chosen[piece - 1][0] == chosen[piece][0]:
                before, first, _ = runs.pop()
                best = min(best, before)
            runs.append((best, first, piece))
        scores = [score for _, score in chosen.values()]
        taken += [(question, place, *run[1:], scores[run[0]]) for place, run in enumerate(sorted(runs))]
    columns = (np.array(c) for c in zip(*taken, strict=True)) if taken else [np.zeros(0, int)] * 5
    of, rank_of, first_of, last_of, value = columns
    level = 1 + np.ceil(np.log2(last_of - first_of + 1)).astype(np.int64)
    document, start, end_of = layout.document_of[first_of], layout.spans[first_of, 0], layout.spans[last_of, 1]
    return Passages(of, rank_of, document, start, end_of, level, value)


def fitting(passages: Passages, budget: int, sizes: Sizes = characters) -> Passages:
    """Return the best passages that fit into a budget as they are, of several spans each; always the best one."""
    length = sizes(passages.document, passages.start, passages.end)
    used = running(length, passages.question) + length
    full = (used > budget) & (passages.rank > 0)
    least = np.full(int(passages.question.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, passages.question[full], passages.rank[full])
    return passages.at(passages.rank < least[passages.question])


def pieces_in(
    layout: Layout, document: np.ndarray, start: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last-plus-one level-1 chunk that begin in each of some spans of text.

    Args:
        layout: Of all corpora.
        document: Position of the document of each span.
        start: First character.
        end: One after the last.
    """
    first, last = (np.searchsorted(layout.begins, pairs(document, at)) for at in (start, end))
    return first, last


def _pieces(
    passages: Passages, begin: int, end: int, layout: Layout, sizes: Sizes
) -> Iterator[tuple[int, int, float, int]]:
    """Yield piece, document, score and size of the pieces of some rows, in their order."""
    for block in range(begin, end, _BLOCK):
        rows = slice(block, min(block + _BLOCK, end))
        first, last = pieces_in(layout, passages.document[rows], passages.start[rows], passages.end[rows])
        pieces, scores = ranges(first, last), np.repeat(passages.score[rows], last - first)
        document = layout.document_of[pieces]
        for at in range(0, len(pieces), _BLOCK):
            part = slice(at, at + _BLOCK)
            size = sizes(document[part], *layout.spans[pieces[part]].T)
            yield from zip(*(a.tolist() for a in (pieces[part], document[part], scores[part], size)), strict=True)


def _taken(
    pieces: Iterable[tuple[int, int, float, int]], budget: int | None, k: int | None
) -> dict[int, tuple[int, float]]:
    """Return document and score of the ranked pieces that fill the budget, or k passages, in their order; each once."""
    taken: dict[int, tuple[int, float]] = {}
    used, runs = 0, 0
    for piece, document, score, size in pieces:
        if piece in taken:
            continue
        joins = sum(near in taken and taken[near][0] == document for near in (piece - 1, piece + 1))
        if (budget is not None and used and used + size > budget) or (k is not None and runs + 1 - joins > k):
            break
        taken[piece] = document, score
        used, runs = used + size, runs + 1 - joins
    return taken


@dataclass(frozen=True)
class RetrievedPassage:
    """A retrieved passage.

    Attributes:
        corpus, doc, title: The document in which it begins.
        text: The text of the passage only.
        spans: Its positions: (corpus, doc, start, end), in characters of the document's text, end exclusive; several
            if the passage consists of several pieces.
        level: Its level, or another granularity of the method; None if it was not found by a retrieval method.
    """

    corpus: str
    doc: str
    title: str
    text: str
    spans: tuple[tuple[str, str, int, int], ...] = ()
    level: int | None = None


def texts(
    corpora: Corpora, passages: Passages, questions: int, rows: Mapping[int, Mapping[str, Any]] | None = None
) -> list[list[RetrievedPassage]]:
    """Return the passages of every question with their texts, best first.

    A passage of several spans contains all of them, in order, and is named after the document of the first.

    Args:
        corpora: The corpora.
        passages: The passages.
        questions: How many questions there are.
        rows: Result of `StoredDocuments.rows` for the documents of the passages, if it is known.
    """
    rows = corpora.stored.rows(passages.document) if rows is None else rows
    documents = {position: (row["title"], row["text"]) for position, row in rows.items()}
    by_question: list[list[RetrievedPassage]] = [[] for _ in range(questions)]
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
            passages_of.append(RetrievedPassage(span[0], span[1], title, piece, (span,), level))
        last = (question, rank)
    return by_question
