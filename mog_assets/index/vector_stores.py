"""What keeps vectors of chunks beside the files of the store, registered in `registry.VECTOR_STORES`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets import registry
from mog_assets.build.recipe import Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.registry import Registry

Nearest = Callable[..., list[tuple[np.ndarray, np.ndarray]]]
"""The nearest chunks of each corpus (see `level_search.merge`), given the corpora, vectors of questions, a level, how
many, and as `where` values of their payload for each question, or None."""


@dataclass(frozen=True)
class VectorStore:
    """A vector store, with an asset for each level, `asset/level_1` and so on, that is made of points for its chunks.

    Attributes:
        used: Whether a project names it. Else its assets are built on demand, and searches do not ask it.
        asset: First part of the keys of its assets, which all searches of vectors name as theirs.
        nearest: A `Nearest`, given also the resources.
        with_payload: A recipe that also has the points tell what it knows of chunks: given the recipe, the levels, and
            a function that gives the keys and values of all chunks of a level while an artefact is built.
        forget: Removes corpora that are gone: given the work, and keys of their assets by corpus; returns counts.
        faults: What does not fit the artefacts, one sentence each, given the corpora that are known to have some.
        facts: What `mog documents` tells of a corpus.
        findings: What `mog doctor` tells of it, each a `cli.findings.Finding`.
        packages: Those whose versions reports tell.
    """

    used: Callable[[Settings], bool]
    asset: str
    nearest: Nearest
    with_payload: Callable[[Recipe, Sequence[int], Callable[[Work, int], list[dict[str, Any]]]], Recipe]
    forget: Callable[[Work, Mapping[str, Sequence[str]]], Mapping[str, float]]
    faults: Callable[[Tools, Collection[str]], Iterable[str]]
    facts: Callable[[Settings, str], Mapping[str, Any]]
    findings: Callable[[], Iterable[Any]]
    packages: tuple[str, ...] = ()


VECTOR_STORES: Registry[VectorStore] = registry.VECTOR_STORES


def used_stores(settings: Settings) -> dict[str, VectorStore]:
    """Return the vector stores that a project names, by their names."""
    return {name: store for name, store in VECTOR_STORES.items() if store.used(settings)}
