"""The granularities of a router: levels of chunks, or hops of the sentence graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mog_assets.config import Settings
from mog_assets.papers.mix_of_granularity.ranker import ROUTERS
from mog_assets.papers.mix_of_granularity.settings import GRAPH


@dataclass(frozen=True)
class RouterFamily:
    """Granularities that a router chooses between.

    Attributes:
        kind: The method that the router serves.
        labels: Key of the soft labels.
        names: Display names of the granularities, finest first.
    """

    kind: str
    labels: str
    names: Sequence[str]

    @property
    def router(self) -> str:
        """Key of the router."""
        return ROUTERS[self.kind]


def families(settings: Settings) -> list[RouterFamily]:
    """Return levels of chunks, and hops of the sentence graph."""
    return [
        RouterFamily("mog-paper", "soft_labels", [f"level {level}" for level in settings.level_range]),
        RouterFamily("mogg-paper", "hop_soft_labels", [f"{hop} hops" for hop in range(GRAPH.of(settings).hops + 1)]),
    ]
