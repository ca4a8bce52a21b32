"""Documents as numbers that change with them, to tell how many candidates of questions changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.text.chunks import Layout


@dataclass(frozen=True)
class DocumentStates:
    """The documents of some corpora, in order.

    Attributes:
        hashes: What is ranked of each as a number, see `document_hashes`: uint64 of shape (documents,).
        pieces: Level-1 chunks of each, int64 of shape (documents,).
    """

    hashes: np.ndarray
    pieces: np.ndarray

    @classmethod
    def of(cls, corpora: Corpora, hashes: Mapping[str, np.ndarray]) -> DocumentStates:
        """Those of some corpora, from the hashes of each."""
        each = [hashes[name] for name in corpora.names]
        return cls(np.concatenate([np.zeros(0, np.uint64), *each]), np.diff(corpora.layout.offsets))


def document_hashes(layout: Layout, digests: Sequence[str]) -> np.ndarray:
    """A number for each document that changes with its id, its title or text, or where it is cut.

    Args:
        layout: Of the documents.
        digests: Hash of title, text and language of each.

    Returns:
        uint64 array of shape (documents,); two documents share a number with a probability of 2^−64.
    """
    cuts = np.ascontiguousarray(layout.spans, np.int64)
    hashes = np.empty(len(layout.documents), np.uint64)
    bounds = zip(layout.documents, digests, layout.offsets[:-1].tolist(), layout.offsets[1:].tolist(), strict=True)
    for row, (name, digest, first, last) in enumerate(bounds):
        facts = f"{layout.corpus}\0{name}\0{digest}\0".encode() + cuts[first:last].tobytes()
        hashes[row] = int.from_bytes(hashlib.blake2b(facts, digest_size=8).digest(), "little")
    return hashes
