"""The documents of some corpora as numbers that change with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mog_assets.retrieval.corpora import Corpora


@dataclass(frozen=True)
class DocumentStates:
    """The documents of some corpora, in order.

    Attributes:
        hashes: What is ranked of each as a number, see `statistics.document_hashes`: uint64 of shape (documents,).
        pieces: Level-1 chunks of each, int64 of shape (documents,).
    """

    hashes: np.ndarray
    pieces: np.ndarray

    @classmethod
    def of(cls, corpora: Corpora, hashes: Mapping[str, np.ndarray]) -> DocumentStates:
        """Those of some corpora, from the hashes of each."""
        each = [hashes[name] for name in corpora.names]
        return cls(np.concatenate([np.zeros(0, np.uint64), *each]), np.diff(corpora.layout.offsets))
