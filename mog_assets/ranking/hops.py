"""Experts of the sentence graph: the neighbourhood around the best node of a piece, by BM25 and by vectors.

In the paper a neighbourhood takes the place of a chunk, and whole neighbourhoods become passages: what is retrieved is
what looks most alike, often copies of one phrase. Here a piece is scored by the company that it keeps, and passages
stay pieces.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.3, for neighbourhoods. Decisions that the paper leaves
open: the best node of a piece is the one with the best BM25 score of its own; of nodes that nearly copy each other a
neighbourhood holds the nearest alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from mog_assets.arrays import pairs, ranges
from mog_assets.graph.search import Neighbourhoods
from mog_assets.ranking.candidates import Candidates
from mog_assets.ranking.relations import EXPERTS, FurtherExpert
from mog_assets.retrieval.statistics import idf
from mog_assets.retrieval.vectors import VectorTable
from mog_assets.routing.retrieve import graph_of_question_sets

# From this share of its own score on, a node is a copy of another.
COPY = 0.8


# Questions whose neighbourhoods are in memory at a time.
_BLOCK = 128


@dataclass(frozen=True)
class Hops:
    """Scores of the neighbourhoods around candidates.

    Attributes:
        around: The sentence graphs of all corpora.
        table: Vectors of the level-1 pieces of all corpora.
    """

    around: Neighbourhoods
    table: VectorTable

    @property
    def names(self) -> list[str]:
        """Of the experts, in the order of the columns of `scores`."""
        return names(self.around.count - 1)

    @cached_property
    def _copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes that nearly copy each node, as `indptr` and `indices`."""
        return self.around.copies(COPY)

    def with_hops(
        self,
        found: Candidates,
        vectors: np.ndarray,
        terms: Sequence[Sequence[str]],
        advance: Callable[[int], object] = lambda done: None,
    ) -> Candidates:
        """Candidates with further columns: the scores of these experts.

        Args:
            found: The candidates.
            vectors: Of the questions, shape (questions, size).
            terms: Of every question.
            advance: Called with the number of questions done.
        """
        columns = [np.zeros((0, len(self.names)), np.float32)]
        for first in range(0, len(terms), _BLOCK):
            rows = slice(first, min(first + _BLOCK, len(terms)))
            here = slice(*found.offsets[[rows.start, rows.stop]])
            question, piece = found.question[here] - first, found.piece[here]
            columns.append(self.scores(question, piece, vectors[rows], terms[rows]))
            advance(rows.stop - rows.start)
        none = np.zeros((len(found.floors), len(self.names)), np.float32)
        scores, floors = np.concatenate(columns), np.concatenate([found.floors, none], axis=1)
        return replace(found, scores=np.concatenate([found.scores, scores], axis=1), floors=floors)

    def scores(
        self, question: np.ndarray, piece: np.ndarray, vectors: np.ndarray, terms: Sequence[Sequence[str]]
    ) -> np.ndarray:
        """The scores of some pieces for some questions.

        Args:
            question: Position of the question, shape (n,).
            piece: Level-1 chunk over all corpora, shape (n,).
            vectors: Of the questions, shape (questions, size).
            terms: Of every question.

        Returns:
            float32 array of shape (n, experts).
        """
        around, hops = self.around, self.around.count
        asked, vocabulary = _asked(terms)
        best = best_nodes(around, question, piece, asked, vocabulary)
        # Questions share the neighbourhoods of a node.
        centres, centre_of = np.unique(best, return_inverse=True)
        row, member, hop = self._members(centres)
        nodes, node_of = np.unique(member, return_inverse=True)
        counts, lengths = around.node_counts(nodes, vocabulary)
        common, query = around.common[nodes], np.asarray(vectors, np.float32)
        result = np.zeros((len(piece), 2 * hops), np.float32)
        tally, size = sparse.csr_matrix((len(centres), len(vocabulary)), dtype=np.float32), np.zeros(len(centres))
        whole = np.zeros((len(centres), query.shape[1]), np.float32)
        for distance in range(hops):
            here = hop == distance
            ones = np.ones(int(here.sum()), np.float32)
            spread = sparse.csr_matrix((ones, (row[here], node_of[here])), (len(centres), len(nodes)))
            tally, size = (tally + spread @ counts).tocsr(), size + spread @ lengths
            shares = (spread @ common).tocsr()
            used = np.unique(shares.indices)
            whole += shares[:, used] @ self.table.rows(used).astype(np.float32)
            weights = _weights(around, tally, size, around.owner_of(centres), vocabulary, distance + 1)
            result[:, distance] = _products(weights[centre_of], asked, question)
            unit = whole / np.maximum(np.linalg.norm(whole, axis=1, keepdims=True), 1e-12)
            result[:, hops + distance] = np.einsum("ij,ij->i", unit[centre_of], query[question])
        return np.maximum(result, 0)

    def _members(self, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes around some nodes without copies: row of the centre, node, and its distance; by row and node."""
        row, node, hop = self.around.around(centres)
        indptr, copies = self._copies
        keys = pairs(row, node)
        count = indptr[node + 1] - indptr[node]
        source = np.repeat(np.arange(len(row)), count)
        other = pairs(row[source], copies[ranges(indptr[node], indptr[node + 1])])
        at = np.minimum(np.searchsorted(keys, other), max(len(keys) - 1, 0))
        there = keys[at] == other if len(keys) else np.zeros(0, bool)
        source, at = source[there], at[there]
        # Of two copies the nearer to the centre stays, then the earlier.
        farther = (hop[at] < hop[source]) | ((hop[at] == hop[source]) & (node[at] < node[source]))
        kept = np.ones(len(row), bool)
        kept[source[farther]] = False
        return row[kept], node[kept], hop[kept]


def best_nodes(
    around: Neighbourhoods, question: np.ndarray, piece: np.ndarray, asked: Any, vocabulary: Sequence[str]
) -> np.ndarray:
    """The node of every piece with the best BM25 score of its own; of equal ones the first."""
    nodes, scores, of = _scored(around, question, piece, asked, vocabulary)
    order = np.lexsort((nodes, -scores, of))
    found: np.ndarray = nodes[order[np.flatnonzero(np.diff(of[order], prepend=-1))]]
    return found


def _scored(
    around: Neighbourhoods, question: np.ndarray, piece: np.ndarray, asked: Any, vocabulary: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes of all pieces, their BM25 scores for the pieces' questions, and the row of the piece."""
    first, last = around.nodes_in(piece)
    of, nodes = np.repeat(np.arange(len(piece)), last - first), ranges(first, last)
    distinct, at = np.unique(nodes, return_inverse=True)
    counts, lengths = around.node_counts(distinct, vocabulary)
    weights = _weights(around, counts, lengths, around.owner_of(distinct), vocabulary, 1)
    return nodes, _products(weights[at], asked, question[of]), of


@dataclass(frozen=True)
class Sentence:
    """`sentence`: BM25 of the best sentence of a piece, by itself; see `relations.Relation`.

    Attributes:
        around: The sentence graphs of all corpora, for their nodes.
    """

    around: Neighbourhoods
    name: str = "sentence"

    def scores(
        self, found: Candidates, value: np.ndarray, vectors: np.ndarray, terms: Sequence[Sequence[str]]
    ) -> np.ndarray:
        """See `relations.Relation.scores`."""
        asked, vocabulary = _asked(terms)
        _, scores, of = _scored(self.around, found.question, found.piece, asked, vocabulary)
        best = np.zeros(len(found.piece), np.float32)
        np.maximum.at(best, of, scores)
        return best


def _asked(terms: Sequence[Sequence[str]]) -> tuple[Any, list[str]]:
    """Terms of questions as a matrix: how often each is asked, shape (questions, vocabulary); and the vocabulary."""
    vocabulary = sorted({term for own in terms for term in own})
    number = {term: i for i, term in enumerate(vocabulary)}
    columns = np.array([number[term] for own in terms for term in own], np.int64)
    shape, ends = (len(terms), len(vocabulary)), np.cumsum([0, *map(len, terms)])
    return sparse.csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape), vocabulary


def _weights(
    around: Neighbourhoods, counts: Any, lengths: np.ndarray, owners: np.ndarray, terms: Sequence[str], granularity: int
) -> Any:
    """BM25 weights of terms in texts, by the held statistics of neighbourhoods of their granularity."""
    options, over = around.corpora.settings.bm25, around.statistics(granularity, terms)
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    worth = np.stack([idf(s.chunks, s.frequencies_of(terms)) for s in over])
    means = np.array([s.mean_length for s in over])
    owner, tf = owners[rows], counts.data.astype(np.float64)
    size = lengths[rows] / np.maximum(means[owner], 1e-9)
    weights = worth[owner, counts.indices] * tf / (tf + options.k1 * (1 - options.b + options.b * size))
    return sparse.csr_matrix((weights.astype(np.float32), counts.indices, counts.indptr), counts.shape)


def names(hops: int) -> list[str]:
    """Names of the experts of 0 … `hops` hops."""
    return [f"hop-{kind}-{hop}" for kind in ("bm25", "dense") for hop in range(hops + 1)]


def _products(weights: Any, asked: Any, question: np.ndarray) -> np.ndarray:
    """Score of every text for its question: float32 of shape (texts,)."""
    return np.asarray(weights.multiply(asked[question]).sum(axis=1), np.float32).ravel()


EXPERTS.register(
    "sentence",
    FurtherExpert(
        lambda opened: Sentence(opened.neighbourhoods),
        per_corpus=("sentence_graph",),
        shared=lambda settings: tuple(graph_of_question_sets(settings)),
    ),
)
