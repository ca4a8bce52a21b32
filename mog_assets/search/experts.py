"""Experts beside those that score a text and the question alone: `ranking.experts` names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mog_assets import registry
from mog_assets.config import Settings
from mog_assets.registry import Registry
from mog_assets.resources.lazy import remembered
from mog_assets.search.candidates import DEPTHS, NEAREST, Candidates
from mog_assets.search.index import Index, Query
from mog_assets.search.relations import Edges, Mentioned, PageRank
from mog_assets.search.router import Router


class Relation(Protocol):
    """Scores candidates by their relations to other candidates of the question."""

    @property
    def name(self) -> str:
        """Of the expert."""

    def scores(self, candidates: Candidates, value: np.ndarray, queries: Sequence[Query]) -> np.ndarray:
        """Return the score of every candidate, float32 of shape (n,), 0 or more.

        Args:
            candidates: The candidates.
            value: How good each is by texts alone, shape (n,).
            queries: The questions.
        """


@dataclass(frozen=True)
class Cost:
    """Cost of an expert that reads, for a question.

    Attributes:
        read: What is read, and its price, for people.
        depends: The settings that this depends on, as JSON values.
        seconds: Measures how long it takes; None if that is not to be measured.
    """

    read: str = "its pieces"
    depends: Any = None
    seconds: Callable[[], float] | None = None


@dataclass(frozen=True)
class FurtherExpert:
    """An expert that `ranking.experts` may name.

    Attributes:
        make: Makes it for what questions are asked of.
        per_corpus: Assets of every corpus that it reads, besides chunks, BM25 and vectors.
        common: Given the settings: the assets of all corpora that it reads.
        reason: What `--explain` says of a passage that it raised; if empty, its place by this expert.
        weight: How much it counts in `fused`, or in `reranked` if it reads; at 13 its best candidate gets as much as
            the best by texts. `mention` and `pagerank` count there by their confidence.
        version: Raised when it gives other scores for the same.
        options: The settings that its scores depend on, as JSON values.
        reads: Whether it reads texts together with each question, which takes time, or money: only rankings that read
            ask it.
        cost: Given the settings, what reading costs.
    """

    make: Callable[[Index], Relation]
    per_corpus: tuple[str, ...] = ()
    common: Callable[[Settings], tuple[str, ...]] = lambda settings: ()
    reason: str = ""
    weight: float = 0.0
    version: str = "1"
    options: Callable[[Settings], Any] = lambda settings: None
    reads: bool = False
    cost: Callable[[Settings], Cost] = lambda settings: Cost()


EXPERTS: Registry[FurtherExpert] = registry.EXPERTS
"""The experts that `ranking.experts` may name."""


def versions(settings: Settings) -> list[list[Any]]:
    """Return what candidates and their scores depend on: numbers, router, experts with versions, weights, options."""
    experts = {name: EXPERTS[name] for name in settings.ranking.experts}
    scored = [[name, its.version, its.weight, its.options(settings)] for name, its in experts.items()]
    return [[NEAREST, *DEPTHS, Router.version()], *scored]


def costs(settings: Settings) -> dict[str, Cost]:
    """Return what the experts that read cost, by name."""
    return {name: EXPERTS[name].cost(settings) for name in settings.ranking.experts if EXPERTS[name].reads}


def reads_mentions(names: Sequence[str]) -> bool:
    """Return whether one of some experts reads what texts name."""
    return any("mentions" in EXPERTS[name].per_corpus for name in names)


def _mentioned(index: Index) -> Mentioned:
    return Mentioned(Edges(*index.mentions.of_pieces), index.corpora.layout)


def _page_rank(index: Index) -> PageRank:
    return PageRank(Edges(*index.mentions.of_pieces), index.corpora.layout)


@remembered
def mentioned_by(index: Index) -> Mentioned | None:
    """Open what gives candidates that others name; None if no expert reads what texts name."""
    return _mentioned(index) if reads_mentions(index.settings.ranking.experts) else None


@remembered
def relations_of(index: Index) -> dict[str, Relation]:
    """Open the experts that `ranking.experts` names."""
    return {name: EXPERTS[name].make(index) for name in index.settings.ranking.experts}


EXPERTS.register(
    "mention",
    FurtherExpert(
        _mentioned,
        ("mentions",),
        lambda settings: ("names",),
        "named by one of the best texts",
    ),
)
EXPERTS.register(
    "pagerank",
    FurtherExpert(
        _page_rank,
        ("mentions",),
        lambda settings: ("names",),
        "what the best texts name leads to it",
    ),
)
