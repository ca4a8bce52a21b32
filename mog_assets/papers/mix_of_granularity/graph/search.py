"""Search the neighbourhoods of sentence graphs like chunks, for MoGG.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.3: neighbourhoods take the place of chunks, hops that of
levels; the rest of MoG is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mog_assets.index.corpora import Corpora
from mog_assets.index.layouts import join_layouts, open_layout
from mog_assets.index.statistics import Counted, StoredStatistics
from mog_assets.index.term_counts import TermCounts
from mog_assets.index.vectors import VectorTable
from mog_assets.papers.level_search.bm25 import Bm25Index, Statistics
from mog_assets.papers.level_search.search import weighted as weighted_counts
from mog_assets.papers.level_search.searchers import LevelMatches
from mog_assets.papers.mix_of_granularity.graph.index_on_disk import IndexOnDisk, load_terms
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import Around, load_neighbourhoods
from mog_assets.papers.mix_of_granularity.graph.packed import load_matrix
from mog_assets.papers.mix_of_granularity.settings import GRAPH
from mog_assets.resources.arrays import places, ranges
from mog_assets.resources.lazy import cached_property
from mog_assets.resources.store import Artefact
from mog_assets.search.depth import DEPTH, seen
from mog_assets.search.passages import Passages
from mog_assets.text.chunks import Layout

# Term counts of neighbourhoods in memory at a time while they are weighted: 60 bytes each.
_ENTRIES = 8_000_000

_Counts = Sequence[tuple[Sequence[str], Any]]
"""Per corpus its terms, and the CSR matrix of their counts."""


@dataclass(frozen=True)
class Neighbourhoods:
    """The neighbourhoods of every node, for the corpora of a question set; see `Granularities` and `Chunks`.

    Granularity g is g − 1 hops; the chunk of a node is its neighbourhood, and has its number. Nodes are numbered over
    all corpora, in their order.

    Attributes:
        corpora: The corpora.
        layouts: Nodes of each corpus, as if they were level-1 chunks.
        count: Number of granularities.
    """

    corpora: Corpora
    layouts: Sequence[Layout]
    count: int

    @classmethod
    def open(cls, corpora: Corpora) -> Neighbourhoods:
        """Open the nodes; everything else is opened when needed."""
        layouts = [
            open_layout(name, corpora.read("documents", name), corpora.read("sentence_graph", name))
            for name in corpora.names
        ]
        return cls(corpora, layouts, GRAPH.of(corpora.settings).hops + 1)

    @cached_property
    def nodes(self) -> Layout:
        """All nodes."""
        return join_layouts("", self.layouts)

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *(layout.count(1) for layout in self.layouts)])[:-1]

    @cached_property
    def _members(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        return {}

    def _graphs(self) -> list[Artefact]:
        return [self.corpora.read("sentence_graph", name) for name in self.corpora.names]

    @cached_property
    def _around(self) -> list[Around]:
        return [load_neighbourhoods(stored.path) for stored in self._graphs()]

    def members(self, granularity: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes of every neighbourhood, as `indptr` and `indices` of a CSR matrix."""
        if granularity not in self._members:
            parts = [around.within(granularity - 1) for around in self._around]
            sizes = np.concatenate([np.diff(indptr) for indptr, _ in parts])
            # int32: there are dozens of members per node.
            indices = [indices + np.int32(start) for (_, indices), start in zip(parts, self._starts, strict=True)]
            self._members[granularity] = np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(indices)
        return self._members[granularity]

    def starts(self, granularity: int) -> np.ndarray:
        """See `Granularities`."""
        return self._starts

    def spread(self, matches: LevelMatches, granularity: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Granularities`."""
        indptr, indices = self.members(granularity)
        first, last = indptr[matches.chunk], indptr[matches.chunk + 1]
        return np.repeat(np.arange(len(first)), last - first), indices[ranges(first, last)]

    def containing(self, pieces: np.ndarray, granularity: int) -> np.ndarray:
        """Return a node's own neighbourhood."""
        return pieces

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.diff(self.nodes.spans, axis=1).ravel()

    def passages(self, matches: LevelMatches, granularities: np.ndarray) -> Passages:
        """Return the spans of every neighbourhood that a measure may use; adjacent nodes are merged."""
        characters = np.zeros(len(matches.chunk), np.int64)
        for granularity in np.unique(granularities):
            here = np.flatnonzero(granularities == granularity)
            indptr, indices = self.members(int(granularity))
            # Only of the neighbourhoods that were found, each once.
            chosen, place = np.unique(matches.chunk[here], return_inverse=True)
            first, last = indptr[chosen], indptr[chosen + 1]
            begin = np.cumsum(last - first) - (last - first)
            characters[here] = np.add.reduceat(self._lengths[indices[ranges(first, last)]], begin)[place]
        rank = places(matches.question)
        # Documents of centres alone: never more than those of all nodes.
        rows_seen = seen(
            matches.question,
            rank,
            self.nodes.document_of[matches.chunk],
            characters,
            max(self.corpora.settings.k, DEPTH),
        )
        matches, rank, granularities = matches.at(rows_seen), rank[rows_seen], granularities[rows_seen]
        rows, nodes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for granularity in np.unique(granularities):
            here = np.flatnonzero(granularities == granularity)
            row, node = self.spread(matches.at(here), int(granularity))
            rows.append(here[row])
            nodes.append(node)
        row, node = np.concatenate(rows), np.concatenate(nodes)
        order = np.argsort(row, kind="stable")
        row, node = row[order], node[order]
        document = self.nodes.document_of[node]
        new = np.ones(len(row), bool)
        new[1:] = (row[1:] != row[:-1]) | (node[1:] != node[:-1] + 1) | (document[1:] != document[:-1])
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(row))[: len(first)] - 1
        row = row[first]
        spans = self.nodes.spans
        return Passages(
            matches.question[row],
            rank[row],
            document[first],
            spans[node[first], 0],
            spans[node[last], 1],
            granularities[row] - 1,
            matches.score[row],
        )

    def counts(self, granularity: int, only: Sequence[str] | None = None) -> list[TermCounts]:
        """Return term counts of every neighbourhood with the title of its centre's document, per corpus.

        They are sums of the counts of nodes, computed on request, for the terms of the questions.

        Args:
            granularity: Of the neighbourhoods.
            only: Terms to count; None counts all. Lengths always include all terms.
        """
        counted = self._counted(granularity)
        return counted.of(sorted(set(only)) if only is not None else counted.terms)

    def _counted(self, granularity: int) -> _Counted:
        if granularity not in self._counts_of:
            self._counts_of[granularity] = _Counted(self, *self._counts, *self.members(granularity))
        return self._counts_of[granularity]

    @cached_property
    def _counts_of(self) -> dict[int, _Counted]:
        return {}

    @cached_property
    def _counts(self) -> tuple[_Counts, _Counts]:
        """Counts of the nodes of each corpus, and of the titles of its documents."""
        stored = [(load_terms(part.path("terms.parquet")), part) for part in self._graphs()]
        nodes, titles = (
            [(terms, load_matrix(part.path(f"{name}.npz"))) for terms, part in stored] for name in ("nodes", "titles")
        )
        return nodes, titles

    def bm25(self, granularity: int, only: Sequence[str]) -> list[Bm25Index]:
        """Return BM25 indexes of a granularity for questions of some terms, per corpus, weighted as the settings say.

        Questions of a test set have most terms of a corpus. To avoid having all their counts in memory, an index of
        many terms is built on disk, from indexes of some of them.
        """
        counted = self._counted(granularity)
        blocks = counted.blocks(sorted(set(only)), _ENTRIES)
        stored = StoredStatistics(self.corpora.read("hop_statistics", None).path, self.corpora.names)
        over = Statistics.stored(stored, f"hop_{granularity - 1}")

        def weighted(terms: Sequence[str]) -> list[Bm25Index]:
            return weighted_counts(self.corpora, counted.of(terms), over)

        if len(blocks) == 1:
            return weighted(blocks[0])
        indexes = [IndexOnDisk(self.corpora.settings.home / "cache") for _ in self.layouts]
        for terms in blocks:
            for index, part in zip(indexes, weighted(terms), strict=True):
                index.add(part)
        return [index.index() for index in indexes]

    def frequencies(self, granularity: int) -> Iterator[tuple[str, Counted]]:
        """Yield of every corpus in how many neighbourhoods each term occurs, how many there are, and their tokens."""
        counted = self._counted(granularity)
        parts: dict[str, tuple[list[str], list[np.ndarray]]] = {name: ([], []) for name in self.corpora.names}
        totals: dict[str, tuple[int, int]] = {}
        for terms in counted.blocks(counted.terms, _ENTRIES):
            for name, part in zip(self.corpora.names, counted.of(terms), strict=True):
                used = np.flatnonzero(part.frequencies)
                parts[name][0].extend(terms[i] for i in used)
                parts[name][1].append(part.frequencies[used])
                totals[name] = len(part.lengths), int(part.lengths.sum())
        for name, (terms, frequencies) in parts.items():
            yield name, (terms, np.concatenate([np.zeros(0, np.int64), *frequencies]), *totals[name])

    def vectors(self, granularity: int, finest: VectorTable) -> NeighbourhoodVectors:
        """Return vectors of neighbourhoods.

        Args:
            granularity: Of the neighbourhoods.
            finest: Level-1 vectors of the corpora.
        """
        return NeighbourhoodVectors(self, granularity, finest)

    @cached_property
    def common(self) -> Any:
        """Characters in common of every node and every level-1 chunk: CSR matrix of shape (nodes, level-1 chunks)."""
        chunks = self.corpora.layout
        # Both tile the same documents, so the sorted ends of both give the pieces that both consist of.
        lengths = np.array([0, *np.cumsum(chunks.spans[chunks.offsets[1:] - 1, 1])])[:-1]
        node_end = self.nodes.spans[:, 1] + lengths[self.nodes.document_of]
        chunk_end = chunks.spans[:, 1] + lengths[chunks.document_of]
        ends = np.union1d(node_end, chunk_end)
        node, chunk = np.searchsorted(node_end, ends), np.searchsorted(chunk_end, ends)
        sizes = np.diff(np.concatenate([[0], ends])).astype(np.float32)
        return sparse.csr_matrix((sizes, (node, chunk)), (len(node_end), len(chunk_end)))


@dataclass(frozen=True)
class _Counted:
    """Term counts of nodes, to be summed over neighbourhoods.

    Attributes:
        around: The neighbourhoods.
        nodes: Of each node.
        titles: Of the title of each document.
        indptr, indices: The nodes of every neighbourhood.
    """

    around: Neighbourhoods
    nodes: _Counts
    titles: _Counts
    indptr: np.ndarray
    indices: np.ndarray

    @property
    def terms(self) -> list[str]:
        """All terms, sorted."""
        return sorted({term for terms, _ in self.nodes for term in terms})

    @property
    def _members(self) -> Any:
        # Not kept: it is made in no time, and as large as all neighbourhoods.
        shape = (len(self.indptr) - 1, len(self.indptr) - 1)
        return sparse.csr_matrix((np.ones(len(self.indices), np.int32), self.indices, self.indptr), shape)

    @cached_property
    def _document(self) -> np.ndarray:
        return self.around.nodes.document_of

    @cached_property
    def _lengths(self) -> np.ndarray:
        """Tokens of every neighbourhood."""
        of_nodes, of_titles = (
            np.concatenate([_sums(matrix) for _, matrix in parts]) for parts in (self.nodes, self.titles)
        )
        total: np.ndarray = self._members @ of_nodes + of_titles[self._document]
        return total

    def of(self, terms: Sequence[str]) -> list[TermCounts]:
        """Return counts of some terms in every neighbourhood, per corpus; lengths are of all terms."""
        return self.some(np.arange(len(self.indptr) - 1), terms)

    def some(self, rows: np.ndarray, terms: Sequence[str]) -> list[TermCounts]:
        """Do as `of`, of the neighbourhoods of some nodes, ascending."""
        members = self._members if len(rows) == len(self.indptr) - 1 else self._members[rows]
        counts = members @ _over(self.nodes, terms) + _over(self.titles, terms)[self._document[rows]]
        parts, start = [], 0
        for layout in self.around.layouts:
            first, last = np.searchsorted(rows, [start, start + layout.count(1)])
            part = counts[first:last].tocsc()
            part.sort_indices()
            lengths = self._lengths[rows[first:last]].astype(np.int64)
            parts.append(TermCounts(terms, part.indptr, part.indices, part.data, lengths))
            start += layout.count(1)
        return parts

    def blocks(self, terms: Sequence[str], entries: int) -> list[list[str]]:
        """Return blocks of terms in order, of about `entries` occurrences in neighbourhoods, at least one term."""
        number = {term: i for i, term in enumerate(terms)}
        most = np.zeros(len(terms), np.int64)
        reach, start = np.bincount(self.indices, minlength=len(self.indptr) - 1), 0
        for nodes_of, matrix in self.nodes:
            # A neighbourhood with a term in two nodes is counted twice.
            weights = np.repeat(reach[start : start + matrix.shape[0]], np.diff(matrix.indptr))
            times = np.bincount(matrix.indices, weights, len(nodes_of))
            here = [(number[term], times[i]) for i, term in enumerate(nodes_of) if term in number]
            for place, count in here:
                most[place] += int(count)
            start += matrix.shape[0]
        block = np.cumsum(np.minimum(most, len(self.indptr))) // entries
        cuts = np.flatnonzero(np.diff(block)) + 1
        return [list(terms[a:b]) for a, b in pairwise([0, *cuts.tolist(), len(terms)])]


@dataclass(frozen=True)
class NeighbourhoodVectors:
    """Unit vectors of neighbourhoods: means of the overlapping level-1 vectors, weighted by common characters."""

    of: Neighbourhoods
    granularity: int
    finest: VectorTable

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of these neighbourhoods, float32 of shape (len(rows), size)."""
        indptr, indices = self.of.members(self.granularity)
        first, last = indptr[rows], indptr[rows + 1]
        owner = np.repeat(np.arange(len(rows)), last - first)
        nodes = indices[ranges(first, last)]
        members = sparse.csr_matrix(
            (np.ones(len(nodes), np.float32), (owner, nodes)), (len(rows), self.of.nodes.count(1))
        )
        shares = (members @ self.of.common).tocsr()
        used = np.unique(shares.indices)
        result = shares[:, used] @ self.finest.rows(used).astype(np.float32)
        return result / np.maximum(np.linalg.norm(result, axis=1, keepdims=True), 1e-12)


def _over(parts: _Counts, terms: Sequence[str]) -> Any:
    """Return counts of several corpora over one vocabulary: int32 CSR matrix, rows in order of the corpora."""
    number = {term: i for i, term in enumerate(terms)}
    blocks = []
    for rows_of, matrix in parts:
        used = np.array([i for i, term in enumerate(rows_of) if term in number], np.int64)
        columns = np.array([number[rows_of[i]] for i in used], np.int64)
        place = sparse.csr_matrix((np.ones(len(used), np.int32), (used, columns)), (len(rows_of), len(terms)))
        blocks.append((matrix.tocsr() @ place).astype(np.int32))
    return sparse.vstack(blocks, format="csr")


def _sums(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.sum(axis=1)).ravel()
