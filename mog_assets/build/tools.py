"""The resources of a project, made from its settings: store, engine, encoder and language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from mog_assets.build.demand import places
from mog_assets.config import Settings
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.engine import Engine, open_engine
from mog_assets.resources.files import make_home
from mog_assets.resources.llm import OpenAIModel
from mog_assets.resources.store import Store

if TYPE_CHECKING:
    from mog_assets.resources.publishing import Place

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
