"""What keeps pieces beside the files of the store and is searched for candidates; see `registry.VECTOR_STORES`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mog_assets import registry
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.index.corpora import Corpora
from mog_assets.registry import Registry
from mog_assets.resources.errors import MissingArtefact

Best = tuple[np.ndarray, np.ndarray]
"""Pieces, numbered as in `Corpora.layout`, the best first; and their scores, float32."""


class CandidateStore(Protocol):
    """Searches the pieces of some corpora, of level 1.

    Scores are the store's own: vectors may be rounded there, and mean lengths of texts. Their errors are small beside
    those of what is no candidate; so more pieces than the best k are given, and whoever wants exact scores computes
    those of these. No piece has a score of 0.
    """

    def nearest(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None) -> list[Best]:
        """Return for each question the k pieces with the nearest vectors, and some more.

        Args:
            vectors: Of the questions, shape (questions, size).
            k: How many at least, where there are so many.
            allowed: Pieces that may be found, bool of shape (pieces,); None for all.
        """

    def matching(self, queries: Sequence[Mapping[str, float]], k: int, allowed: np.ndarray | None = None) -> list[Best]:
        """Return for each question the k pieces that match its words best by BM25, and some more.

        Args:
            queries: Of each question the weight of every term: its inverse document frequency, times how often it is
                there.
            k: See `nearest`.
            allowed: See `nearest`.
        """


@dataclass(frozen=True)
class VectorStore:
    """A vector store, with an asset of each corpus that is made from its pieces.

    Attributes:
        used: Whether a project names it. Else its asset is built on demand, and searches do not ask it.
        asset: Key of its asset.
        open: Opens a `CandidateStore`; raises `MissingArtefact` if a corpus is not in it as it is now.
        forget: Removes corpora that are gone, by their names; returns counts.
        faults: What does not fit the artefacts, one sentence each, given the corpora that are known to have some.
        findings: What `mog doctor` tells of it, each a `cli.findings.Finding`.
        packages: Those whose versions reports tell.
    """

    used: Callable[[Settings], bool]
    asset: str
    open: Callable[[Tools, Corpora], CandidateStore]
    forget: Callable[[Tools, Iterable[str]], Mapping[str, float]]
    faults: Callable[[Tools, Collection[str]], Iterable[str]]
    findings: Callable[[], Iterable[Any]]
    packages: tuple[str, ...] = ()


VECTOR_STORES: Registry[VectorStore] = registry.VECTOR_STORES


def open_candidates(tools: Tools, corpora: Corpora) -> CandidateStore | None:
    """Open the vector store that the project names; None if there is none, or it does not have what is searched yet."""
    for store in VECTOR_STORES.values():
        if store.used(tools.settings):
            try:
                return store.open(tools, corpora)
            except MissingArtefact:
                return None
    return None
