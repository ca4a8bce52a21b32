"""Edges from texts to the documents that they name, for the corpora that are searched together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.parquet as pq

from mog_assets.index.corpora import Corpora
from mog_assets.resources.arrays import pairs, ranges, unpaired
from mog_assets.resources.tables import numbers, read_table

# A name that more documents have says nothing of which is meant.
MOST_BEARERS = 8
# A name that a greater share of documents has in its text is an everyday word; a few documents may always have it.
EVERYDAY, ALWAYS = 0.05, 20
# Weight of the most frequent names that count.
LEAST = 0.05


def names_file(corpus: str) -> str:
    """Return the file of the asset `names` with the names of a corpus."""
    return f"names_{corpus}.parquet"


@dataclass(frozen=True)
class Mentions:
    """Mentions of documents in each other.

    A name within a longer one is no mention, and a document does not name itself. A mention weighs 1 if one document
    has the name and no other text mentions it: it weighs less the more documents have the name, and the more texts
    mention it. That is counted in powers of two, so that one more text rarely changes a weight.

    Attributes:
        corpora: The corpora.
        document: int64 array of shape (edges,): the document whose text names another; documents are numbered over all
            corpora, in their order, and edges by document, start and target.
        start, end: Where in its text.
        target: The named document.
        weight: float32, in (0, 1].
    """

    corpora: Corpora
    document: np.ndarray
    start: np.ndarray
    end: np.ndarray
    target: np.ndarray
    weight: np.ndarray

    @classmethod
    def open(cls, corpora: Corpora) -> Mentions:
        """Read the mentions of the corpora, and which document has which name."""
        number = len(corpora.layout.documents)
        name, bearer = _bearers(corpora)
        document, start, end, name_of = _places(corpora)
        outermost = _outermost(document, start, end)
        document, start, end, name_of = document[outermost], start[outermost], end[outermost], name_of[outermost]
        # How many documents mention a name, and how many have it.
        distinct, of = np.unique(name_of, return_inverse=True)
        named = np.bincount(np.unique(pairs(of, document)) >> 32, minlength=len(distinct))
        first, last = np.searchsorted(name, distinct), np.searchsorted(name, distinct, side="right")
        bearers = last - first
        usual = (bearers > 0) & (bearers <= MOST_BEARERS) & (named <= max(EVERYDAY * number, ALWAYS))
        share = np.floor(np.log2(np.maximum(named, 1))) / max(np.ceil(np.log2(max(number, 2))), 1)
        weights = np.maximum(1 - share, LEAST) / np.maximum(bearers, 1)
        rows = np.flatnonzero(usual[of])
        count = bearers[of[rows]]
        target = bearer[ranges(first[of[rows]], last[of[rows]])]
        rows = np.repeat(rows, count)
        other = target != document[rows]
        # A text that has one of a document's names for itself does not name others by it.
        documents_of = np.unique(pairs(of[rows[~other]], document[rows[~other]]))
        other &= ~np.isin(pairs(of[rows], document[rows]), documents_of)
        rows, target = rows[other], target[other]
        order = np.lexsort((target, start[rows], document[rows]))
        rows, target = rows[order], target[order]
        return cls(corpora, document[rows], start[rows], end[rows], target, weights[of[rows]].astype(np.float32))

    @cached_property
    def of_pieces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the documents that level-1 pieces name, by piece: first edge of each, targets, and greatest weights.

        A mention is in the piece that it begins in.
        """
        layout = self.corpora.layout
        starts = pairs(layout.document_of, layout.spans[:, 0])
        piece = np.searchsorted(starts, pairs(self.document, self.start), side="right") - 1
        keys, where = np.unique(pairs(piece, self.target), return_inverse=True)
        weight = np.zeros(len(keys), np.float32)
        np.maximum.at(weight, where, self.weight)
        piece, target = unpaired(keys)
        return np.searchsorted(piece, np.arange(layout.count(1) + 1)), target, weight


def _bearers(corpora: Corpora) -> tuple[np.ndarray, np.ndarray]:
    """Return names as digests, ascending, and the document that has each."""
    name, bearer, first = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], 0
    stored = corpora.read("names", None)
    for corpus, layout in zip(corpora.names, corpora.layouts, strict=True):
        table = read_table(stored.path(names_file(corpus)), ["digest", "document"])
        name.append(numbers(table, "digest"))
        bearer.append(numbers(table, "document").astype(np.int64) + first)
        first += len(layout.documents)
    names, bearers = np.concatenate(name), np.concatenate(bearer)
    order = np.lexsort((bearers, names))
    return names[order], bearers[order]


def _places(corpora: Corpora) -> tuple[np.ndarray, ...]:
    """Return all places where names stand: document, start, end and name, by document and start."""
    parts, first = [tuple(np.zeros(0, kind) for kind in (np.int64, np.int64, np.int64, np.uint64))], 0
    for corpus in corpora.names:
        stored, documents = corpora.read("mentions", corpus), corpora.read("documents", corpus)
        for bucket in documents.names("bucket"):
            table = read_table(stored.path(bucket))
            columns = [numbers(table, column) for column in ("document", "start", "end", "name")]
            parts.append((columns[0].astype(np.int64) + first, *(c.astype(np.int64) for c in columns[1:3]), columns[3]))
            first += pq.read_metadata(documents.path(bucket)).num_rows
    document, start, end, name = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((name, end, start, document))
    return document[order], start[order], end[order], name[order]


def _outermost(document: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return rows whose place does not lie within a longer one of the same document; rows are by document and start."""
    if not len(document):
        return np.zeros(0, np.int64)
    order = np.lexsort((-end, start, document))
    # Ends of all documents in one rising order: the greatest end before a row is of the same document, or less.
    reach = pairs(document[order], end[order])
    before = np.concatenate([[-1], np.maximum.accumulate(reach)[:-1]])
    same_start = np.concatenate([[False], (np.diff(document[order]) == 0) & (np.diff(start[order]) == 0)])
    equal = np.concatenate([[False], same_start[1:] & (np.diff(end[order]) == 0)])
    # Several documents may have the same name in different forms: the same place is not within itself.
    inside = (before >= reach) & ~(equal & (before == reach))
    # A place equal to one that is inside is inside as well.
    group = np.cumsum(~equal) - 1
    return np.sort(order[~inside[np.flatnonzero(~equal)][group]])
