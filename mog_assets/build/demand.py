"""What is read of the graph: the assets that searches and answers need, and which of them are of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mog_assets.config import Settings
from mog_assets.registry import DEMANDS

if TYPE_CHECKING:
    from mog_assets.resources.publishing import Place


@dataclass(frozen=True)
class Needs:
    """Keys of the assets that methods read: partitioned ones and unpartitioned ones."""

    per_corpus: tuple[str, ...] = ()
    common: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return (*self.per_corpus, *self.common)

    def __or__(self, other: Needs) -> Needs:
        keys = ((*self.per_corpus, *other.per_corpus), (*self.common, *other.common))
        return Needs(*(tuple(dict.fromkeys(part)) for part in keys))


@dataclass(frozen=True)
class Demand:
    """The assets that a room reads, or all rooms together.

    Attributes:
        words: Of searches by words alone: they are built first.
        search: Of every search: they are built next.
        current: What every question needs, all from the same moment.
        methods: Of the configured methods: they are built without being named.
        optional: What questions may ask for.
        by_words: Name of the method that searches by words alone.
    """

    words: Needs = field(default_factory=Needs)
    search: Needs = field(default_factory=Needs)
    current: Needs = field(default_factory=Needs)
    methods: Needs = field(default_factory=Needs)
    optional: Needs = field(default_factory=Needs)
    by_words: str = ""

    def __or__(self, other: Demand) -> Demand:
        return Demand(
            self.words | other.words,
            self.search | other.search,
            self.current | other.current,
            self.methods | other.methods,
            self.optional | other.optional,
            self.by_words or other.by_words,
        )


def demand(settings: Settings) -> Demand:
    """Return what all rooms read."""
    union = Demand()
    for room in DEMANDS.values():
        union |= room(settings)
    return union


def places(settings: Settings, names: Sequence[str]) -> tuple[list[Place], list[Place]]:
    """Return what questions need of some corpora in any case, and what else they may ask for."""
    read = demand(settings)
    required = places_of(names, read.current)
    return required, [place for place in places_of(names, read.optional) if place not in required]


def places_of(names: Sequence[str], needed: Needs) -> list[Place]:
    """Return the artefacts of some corpora that are needed."""
    return [*((key, name) for name in names for key in needed.per_corpus), *((key, None) for key in needed.common)]
