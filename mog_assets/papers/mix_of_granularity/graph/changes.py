"""What a change does to neighbourhoods: one is different if any of its nodes is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from mog_assets.arrays import mixed, places
from mog_assets.papers.mix_of_granularity.graph.search import Neighbourhoods
from mog_assets.retrieval.bm25 import Bm25Index
from mog_assets.retrieval.changes import Change, Documents


@dataclass(frozen=True)
class Nodes:
    """The neighbourhoods of some corpora as numbers that change with their texts.

    Attributes:
        documents: Their documents; `pieces` are their nodes.
        hops: uint32 array of shape (granularities, nodes): what each neighbourhood consists of.
    """

    documents: Documents
    hops: np.ndarray

    @classmethod
    def of(cls, around: Neighbourhoods, hashes: np.ndarray) -> Nodes:
        """Those of today.

        Args:
            around: The neighbourhoods.
            hashes: Of the documents of all corpora, see `statistics.document_hashes`.
        """
        nodes = around.nodes
        own = mixed(hashes[nodes.document_of] ^ mixed(places(nodes.document_of).astype(np.uint64)))
        hops = np.zeros((around.count, len(own)), np.uint32)
        for granularity in range(1, around.count + 1):
            indptr, indices = around.members(granularity)
            # The sum does not depend on the order, and a node is in a neighbourhood once.
            sums = np.add.reduceat(own[indices], indptr[:-1]) if len(own) else own
            hops[granularity - 1] = mixed(sums ^ own) >> np.uint64(32)
        return cls(Documents(hashes, np.diff(nodes.offsets)), hops)

    @classmethod
    def read(cls, path: Path) -> Nodes:
        """What `write` wrote."""
        return cls(Documents.read(path), load_file(path)["hops"].view(np.uint32))

    def write(self, path: Path) -> None:
        """Write them."""
        hops = np.ascontiguousarray(self.hops).view(np.int32)
        path.write_bytes(save({**self.documents.arrays, "hops": hops}))


@dataclass(frozen=True)
class Hops:
    """The neighbourhoods before and after a change; see `retrieval.changes.Texts`.

    Attributes:
        around: As they are now.
        before, now: What they consist of.
    """

    around: Neighbourhoods
    before: Nodes
    now: Nodes

    @cached_property
    def _moved(self) -> np.ndarray:
        """Number now of every earlier node, −1 if its document is gone."""
        change = Change(self.before.documents, self.now.documents)
        return change.chunks(np.arange(self.before.hops.shape[1]), 1)

    def moved(self, granularity: int, texts: np.ndarray) -> np.ndarray:
        """See `Texts`."""
        now = np.where(texts >= 0, self._moved[texts], -1)
        same = self.before.hops[granularity - 1][texts] == self.now.hops[granularity - 1][now]
        return np.where((now >= 0) & same, now, -1)

    def fresh(self, granularity: int) -> np.ndarray:
        """See `Texts`."""
        new = np.ones(self.now.hops.shape[1], bool)
        kept = self.moved(granularity, np.arange(len(self._moved)))
        new[kept[kept >= 0]] = False
        return np.flatnonzero(new)

    def index(self, granularity: int, texts: np.ndarray, terms: Sequence[str]) -> Bm25Index:
        """See `Texts`."""
        return self.around.bm25_of(granularity, texts, terms)

    def starts(self, granularity: int) -> np.ndarray:
        """See `Texts`."""
        return self.around.starts(granularity)
