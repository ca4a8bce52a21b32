"""Statistics of nodes that weigh the edges of a sentence graph, held while few documents change.

With the same statistics, the score of a node for another one's query depends on the texts of the two alone: an edited
document leaves the edges between all others as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.retrieval.statistics import changed
from mog_assets.tables import read_table


@dataclass(frozen=True)
class NodeStatistics:
    """What BM25 weighs nodes with, and the documents that it was counted in.

    Attributes:
        nodes: Number of nodes.
        tokens: Number of their tokens.
        terms: Terms that occur in a node, sorted.
        frequencies: int32 array of shape (terms,): in how many nodes each occurs, ≥ 1.
        documents: uint64 array of shape (documents,), sorted: see `document_keys`.
    """

    nodes: int
    tokens: int
    terms: Sequence[str]
    frequencies: np.ndarray
    documents: np.ndarray

    @property
    def mean_length(self) -> float:
        """Mean tokens of a node."""
        return self.tokens / max(self.nodes, 1)

    def frequencies_of(self, terms: Sequence[str]) -> np.ndarray:
        """In how many nodes each term occurs, int64 array of shape (len(terms),); 1 for a term that is not known."""
        held = dict(zip(self.terms, self.frequencies.tolist(), strict=True))
        return np.array([held.get(term, 1) for term in terms], np.int64)


def document_keys(documents: Iterable[tuple[str, ...]]) -> np.ndarray:
    """A number for each document that another id or text changes: uint64 array.

    Args:
        documents: Corpus and id of each, or also the hash of title and text.
    """
    digests = (hashlib.sha256(json.dumps(document).encode()).digest()[:8] for document in documents)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def take_statistics(counts: Any, terms: Sequence[str], documents: np.ndarray) -> NodeStatistics:
    """Statistics of these nodes.

    Args:
        counts: CSR matrix of shape (nodes, terms): how often each term occurs in each node.
        terms: The terms, sorted.
        documents: Keys of the documents of the nodes, in any order.
    """
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    # A term of titles alone is in no node.
    known = np.flatnonzero(frequency)
    return NodeStatistics(
        nodes=counts.shape[0],
        tokens=int(counts.data.sum(dtype=np.int64)),
        terms=[terms[i] for i in known.tolist()],
        frequencies=frequency[known].astype(np.int32),
        documents=np.sort(documents),
    )


def renewal(
    held: NodeStatistics | None, documents: np.ndarray, share: float, reason: str | None = None
) -> tuple[int, str | None]:
    """How many documents changed since statistics were taken, and why they are taken again.

    Args:
        held: Statistics of an earlier build with the same settings, None if there are none.
        documents: Keys of the documents now.
        share: Greatest share of changed documents, 0 to 1, with which they stay.
        reason: Why they are taken again in any case, in a few words; None if that depends on the share.

    Returns:
        Documents added, removed or edited (an edited one counts once), 0 if nothing is held; and the reason in a few
        words, None if the statistics stay.
    """
    if held is None:
        return 0, reason or "none held"
    edited = changed(held.documents, documents)
    if reason is None and edited > share * len(held.documents):
        reason = f"{edited} of {len(held.documents)} documents changed"
    return edited, reason


def save_statistics(statistics: NodeStatistics, path: Path) -> None:
    """Write what nodes are weighted with; not the documents."""
    table = pa.table({"term": pa.array(statistics.terms, pa.string()), "nodes": statistics.frequencies})
    noted = {"nodes": str(statistics.nodes), "tokens": str(statistics.tokens)}
    pq.write_table(table.replace_schema_metadata(noted), path, compression="zstd")


def load_statistics(path: Path, documents: Path) -> NodeStatistics:
    """Statistics that `save_statistics` wrote, and the keys of their documents as a `.npy` file."""
    table = read_table(path)
    noted = {name.decode(): int(value) for name, value in (table.schema.metadata or {}).items() if value.isdigit()}
    return NodeStatistics(
        nodes=noted["nodes"],
        tokens=noted["tokens"],
        terms=table["term"].to_pylist(),
        frequencies=table["nodes"].to_numpy(),
        documents=np.load(documents),
    )
