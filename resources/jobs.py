"""Jobs of the engine: its settings, and the call itself, which is the same in every process and on every machine."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from mog_assets.resources.registry import ENGINES
from mog_assets.resources.settings import SettingsModel
from mog_assets.resources.writing import atomic

# `Engine.map`, or the same in processes that stay.
Kept = Callable[[str, list[dict[str, Any]]], Iterator[Any]]


class EngineSettings(SettingsModel):
    """Where work on document buckets runs: a `kind` of engine."""

    kind: Annotated[str, AfterValidator(ENGINES.check)] = "inprocess"


def call(target: str, arguments: dict[str, Any], maker: str = "") -> Any:
    """Call a bucket function; `maker` tells its temporary file from those of processes on other machines."""
    module, _, function = target.partition(":")
    with atomic(Path(arguments["out"]), maker=maker) as temporary:
        return getattr(importlib.import_module(module), function)(**{**arguments, "out": str(temporary)})
