"""Experts that score a candidate by its relations to others: who names it, what it is reached from, what it is about.

The experts of texts know a text and the question alone. For a question whose answer lies in several documents the
text that is needed next often shares no word with it, but the best texts found so far name the document that it is in.
A relation is computed among the candidates of a question, so it depends on nothing else: rankings stay as they are
while their candidates and the edges of these do.

References: for personalised PageRank over what texts name, Gutiérrez et al. 2024 (HippoRAG).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mog_assets.resources.arrays import places, ranges
from mog_assets.search.candidates import Candidates, ordered
from mog_assets.search.index import Query
from mog_assets.text.chunks import Layout

# The best candidates of a question that are read for names, and that a walk begins at.
NAMING, SEEDS = 4, 10
# Of the documents named most strongly, so many give candidates.
NAMED = 12
# A walk goes back to where it began with this chance, and has so many steps: the rest changes the third decimal.
RESTART, STEPS = 0.3, 12


@dataclass(frozen=True)
class Edges:
    """Edges from pieces to the documents that they name, by piece.

    Attributes:
        first: First edge of every piece, and the number of edges.
        document: Of each edge.
        weight: In (0, 1].
    """

    first: np.ndarray
    document: np.ndarray
    weight: np.ndarray

    def of_pieces(self, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the edges of some pieces: row in the argument, document, and weight."""
        begin, end = self.first[pieces], self.first[pieces + 1]
        at = ranges(begin, end)
        return np.repeat(np.arange(len(pieces)), end - begin), self.document[at], self.weight[at]


def best(candidates: Candidates, value: np.ndarray, count: int) -> np.ndarray:
    """Return rows of the `count` best candidates of every question, best first; of equal ones the earlier piece."""
    order = ordered(candidates, value)
    return order[places(candidates.question[order]) < count]


@dataclass(frozen=True)
class Mentioned:
    """`mention`: whether one of the best candidates names the document of a piece.

    Attributes:
        edges: From pieces to documents.
        layout: Of all corpora.
    """

    edges: Edges
    layout: Layout
    name: str = "mention"

    def named(self, candidates: Candidates, value: np.ndarray) -> list[dict[int, float]]:
        """Return the documents that the best candidates of each question name, and how strongly.

        That is the greatest weight of a mention, times the value of the piece by that of the best of the question.
        """
        every = []
        for begin, end in pairwise(candidates.offsets.tolist()):
            top = begin + np.argsort(-value[begin:end], kind="stable")[:NAMING]
            row, document, weight = self.edges.of_pieces(candidates.piece[top])
            share = np.maximum(value[top] / max(value[top].max(initial=0), 1e-9), 0)
            named: dict[int, float] = {}
            for number, strength in zip(document.tolist(), (share[row] * weight).tolist(), strict=True):
                named[number] = max(named.get(number, 0.0), strength)
            every.append(named)
        return every

    def scores(self, candidates: Candidates, value: np.ndarray, queries: Sequence[Query]) -> np.ndarray:
        """See `Relation.scores`."""
        scores, documents = np.zeros(len(value), np.float32), self.layout.document_of[candidates.piece]
        spans = pairwise(candidates.offsets.tolist())
        for (begin, end), named in zip(spans, self.named(candidates, value), strict=True):
            if named:
                scores[begin:end] = [named.get(document, 0.0) for document in documents[begin:end].tolist()]
        return scores

    def more(self, candidates: Candidates, value: np.ndarray) -> np.ndarray:
        """Return documents whose pieces are to be candidates of a question: those named most strongly, ascending."""
        (named,) = self.named(candidates, value)
        strongest = sorted(named, key=lambda document: (-named[document], document))[:NAMED]
        return np.array(sorted(strongest), np.int64)


@dataclass(frozen=True)
class PageRank:
    """`pagerank`: how often a walk from the best candidates, along what texts name, comes to the document of a piece.

    Attributes:
        edges: From pieces to documents.
        layout: Of all corpora.
    """

    edges: Edges
    layout: Layout
    name: str = "pagerank"

    def scores(self, candidates: Candidates, value: np.ndarray, queries: Sequence[Query]) -> np.ndarray:
        """See `Relation.scores`."""
        scores = np.zeros(len(value), np.float32)
        for begin, end in pairwise(candidates.offsets.tolist()):
            if begin < end:
                scores[begin:end] = self._walked(candidates.piece[begin:end], value[begin:end])
        return scores

    def _walked(self, pieces: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Return how often a walk comes to the documents of a question's candidates: shape (pieces,)."""
        row, named, weight = self.edges.of_pieces(pieces)
        documents, node_of = np.unique(self.layout.document_of[pieces], return_inverse=True)
        count, target = len(documents), np.searchsorted(documents, named)
        linked = np.flatnonzero(documents[np.minimum(target, len(documents) - 1)] == named)
        if not len(linked):
            return np.zeros(len(pieces))
        # From the document of a column to that of a row.
        pairs_of = target[linked] * count + node_of[row[linked]]
        links = np.bincount(pairs_of, weight[linked], count * count).reshape(count, count)
        leaving = links.sum(axis=0)
        links = links / np.maximum(leaving, 1e-12)
        top = np.argsort(-value, kind="stable")[:SEEDS]
        start = np.bincount(node_of[top], np.maximum(value[top], 0) ** 2, count)
        start = start / max(start.sum(), 1e-12)
        # Where a text names nothing, the walk begins again.
        step = (1 - RESTART) * (links + np.outer(start, leaving <= 0)) + RESTART * start[:, None]
        mass = start
        for _ in range(STEPS):
            mass = step @ mass
        # What arrives by a link: that a walk begins at a document is known already.
        arriving: np.ndarray = (links @ mass)[node_of]
        return arriving
