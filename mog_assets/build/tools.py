"""The resources of a project, made from its settings, and what is read of its graph: by searches, and by answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from mog_assets.config import Settings
from mog_assets.registry import DEMANDS
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.engine import Engine, open_engine
from mog_assets.resources.files import make_home
from mog_assets.resources.llm import OpenAIModel
from mog_assets.resources.store import Store

if TYPE_CHECKING:
    from mog_assets.resources.sets import Place

Opened = TypeVar("Opened")


@dataclass(frozen=True)
class Tools:
    """The resources of the graph, made from the settings; each is opened on first use.

    Attributes:
        settings: The settings.
        keep: Whether vectors and replies of a language model are stored; not those that serve what people ask.
    """

    settings: Settings
    keep: bool = True
    _opened: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def store(self) -> Store:
        """Artefacts on disk, in a home that its owner alone can read."""
        make_home(self.settings.home)
        return Store(self.settings.home)

    @cached_property
    def read(self) -> tuple[list[Place], list[Place]]:
        """Return what questions need in any case, and what else they may ask for, of all corpora."""
        return places(self.settings, list(self.settings.corpora))

    def settled(self) -> Tools:
        """Return these once they know what questions need: who builds an asset does not ask the methods for it."""
        assert self.read
        return self

    @cached_property
    def engine(self) -> Engine:
        """Runs work on buckets."""
        return open_engine(self.settings.engine, self.settings.home)

    @cached_property
    def encoder(self) -> Encoder:
        """Encodes texts; vectors are cached in the home folder."""
        return Encoder(self.settings.encoder, self.settings.home / "cache", keep=self.keep)

    def opened(self, resource: Callable[[Tools], Opened]) -> Opened:
        """Return a further resource that a function opens, on first use."""
        if resource not in self._opened:
            self._opened[resource] = resource(self)
        opened: Opened = self._opened[resource]
        return opened

    @cached_property
    def llm(self) -> OpenAIModel:
        """The configured language model; its responses are cached in the home folder."""
        return OpenAIModel(self.settings.llm, self.settings.seed, self.settings.home / "cache", keep=self.keep)


@dataclass(frozen=True)
class Needs:
    """Keys of the assets that methods read: partitioned ones and unpartitioned ones."""

    per_corpus: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return (*self.per_corpus, *self.shared)

    def __or__(self, other: Needs) -> Needs:
        keys = ((*self.per_corpus, *other.per_corpus), (*self.shared, *other.shared))
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
    return [*((key, name) for name in names for key in needed.per_corpus), *((key, None) for key in needed.shared)]
