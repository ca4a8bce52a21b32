"""Jobs of the engine: its settings, and the call itself, which is the same in every process and on every machine."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from mog_assets.resources.settings import Count, SettingsModel
from mog_assets.resources.writing import atomic

# `Engine.map`, or the same in processes that stay.
Kept = Callable[[str, list[dict[str, Any]]], Iterator[Any]]


def _address(address: str) -> str:
    host, _, port = address.rpartition(":")
    if address.startswith("ray://"):
        raise ValueError(
            "Ray Client (`ray://`) loses all work when its connection drops, and this process needs the home folder of "
            "the cluster: run it on a node of the cluster, with `auto` or the address `host:port` of the head node"
        )
    if address != "auto" and not (host and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"expected `auto` or `host:port`, got {address!r}")
    return address


class EngineSettings(SettingsModel):
    """Where work on document buckets runs.

    `workers` processes, here or in a Ray that is started on this machine; a Ray cluster at `address` uses what it has.
    The other keys are for Ray. `pending` tasks are submitted at a time (default: four for each CPU of the cluster). A
    task that died with its process or its node is run again `retries` times. Vectors are encoded by `encoders`
    processes with `gpus` GPUs each (default: as many as the cluster has room for, with one GPU each if it has any).
    The cluster, and every node of it, must answer within `wait_seconds`.
    """

    kind: Literal["inprocess", "processes", "ray"] = "inprocess"
    workers: Annotated[int, Field(ge=1, le=1024)] = 2
    # None: RAY_ADDRESS, or a Ray that is started on this machine.
    address: Annotated[str, AfterValidator(_address)] | None = None
    pending: Count | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = 3
    gpus: Annotated[float, Field(ge=0, le=16)] | None = None
    encoders: Annotated[int, Field(ge=1, le=1024)] | None = None
    wait_seconds: Annotated[float, Field(gt=0, le=3600)] = 60


def call(target: str, arguments: dict[str, Any], maker: str = "") -> Any:
    """Call a bucket function; `maker` tells its temporary file from those of processes on other machines."""
    module, _, function = target.partition(":")
    with atomic(Path(arguments["out"]), maker=maker) as temporary:
        return getattr(importlib.import_module(module), function)(**{**arguments, "out": str(temporary)})
