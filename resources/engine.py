"""Where work on document buckets runs: this process, or other machines.

A bucket function is named by `"module:function"`, takes keyword arguments that are plain values and paths, and writes
the file `out`, which the engine moves into place when it is complete. It is deterministic, so it does not matter where
it runs.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, create_model

from mog_assets.resources.encoder import Encoder
from mog_assets.resources.files import atomic
from mog_assets.resources.registry import ENGINES
from mog_assets.resources.settings import SettingsModel

# `Engine.map`, or the same in processes that stay.
PoolMap = Callable[[str, list[dict[str, Any]]], Iterator[Any]]


class EngineSettings(SettingsModel):
    """Engine that work on document buckets runs on: a `kind`."""

    kind: Annotated[str, AfterValidator(ENGINES.check)] = "inprocess"


def call(target: str, arguments: dict[str, Any], maker: str = "") -> Any:
    """Call a bucket function; `maker` tells its temporary file from those of processes on other machines."""
    module, _, function = target.partition(":")
    with atomic(Path(arguments["out"]), maker=maker) as temporary:
        return getattr(importlib.import_module(module), function)(**{**arguments, "out": str(temporary)})


class Engine(ABC):
    """Maps a bucket function over buckets.

    A kind of engine is a class that is registered in `registry.ENGINES`.

    Args:
        settings: Of the engine.
        home: The home folder; on every machine that an engine uses, its path must be the same.

    Attributes:
        settings_type: `EngineSettings`, or a class of it with the keys that this engine reads besides.
        elsewhere: Whether jobs may run on other machines.
    """

    settings_type: ClassVar[type[EngineSettings]] = EngineSettings
    elsewhere: ClassVar[bool] = False

    def __init__(self, settings: EngineSettings, home: Path | None = None) -> None:
        self.settings = settings
        self.home = home

    @abstractmethod
    def map(self, target: str, jobs: list[dict[str, Any]]) -> Iterator[Any]:
        """Yield the result of each job as it is done, in any order.

        Args:
            target: `"package.module:function"`.
            jobs: Keyword arguments, one dictionary per job; `out` names the file that the job writes.

        Raises:
            MogError: the cluster, or a node of it, cannot do the work.
        """

    @abstractmethod
    def describe(self) -> str:
        """Connect, check every machine, and say what is there.

        Raises:
            MogError: the cluster does not answer, or a node cannot be used.
        """

    @contextmanager
    def open_pool(self, most: int) -> Iterator[PoolMap]:
        """Give a function like `map`, by processes elsewhere that stay until the end of this context.

        They stay because what they load takes long. Where no jobs run elsewhere, it is `map`.

        Args:
            most: As many jobs as there are to come.
        """
        yield self.map

    def encoding(self, encoder: Encoder, texts: int) -> AbstractContextManager[None]:
        """Have what is not in the cache of an encoder encoded elsewhere, until the end of this context, if it can be.

        Args:
            encoder: Its `encode` changes.
            texts: As many texts as there are to come at most.
        """
        return nullcontext()

    def scratch(self) -> Path:
        """Return a folder that every machine sees, deleted when this process leaves the cluster."""
        raise NotImplementedError("no job runs elsewhere")


class InProcess(Engine):
    """Runs one job after the other in this process."""

    def map(self, target: str, jobs: list[dict[str, Any]]) -> Iterator[Any]:
        """Do as `Engine.map`."""
        for job in jobs:
            yield call(target, job)

    def describe(self) -> str:
        """Do as `Engine.describe`."""
        return "this process"


ENGINES.register("inprocess", InProcess)


@cache
def engine_settings() -> type[EngineSettings]:
    """Return the settings with the keys of every kind of engine that is installed."""
    further = dict.fromkeys(kind.settings_type for kind in ENGINES.values() if kind.settings_type != EngineSettings)
    described = "\n\n".join(kind.__doc__ or "" for kind in (EngineSettings, *further))
    options: dict[str, Any] = {"__base__": (*further,) or EngineSettings, "__module__": __name__}
    return create_model("EngineSettings", __doc__=described, **options)


def open_engine(settings: EngineSettings, home: Path) -> Engine:
    """Return the engine of some settings."""
    engine: Engine = ENGINES[settings.kind](settings, home)
    return engine
