"""Keys of the section `engine` that Ray reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from mog_assets.resources.engine import EngineSettings
from mog_assets.resources.settings import Count


def _address(address: str) -> str:
    host, _, port = address.rpartition(":")
    if address.startswith("ray://"):
        raise ValueError(
            "Ray Client (`ray://`) loses all work when its connection drops, and this process needs the home folder of "
            "the cluster: run it on a node of the cluster, with `auto` or the address `host:port` of the head node"
        )
    if address != "auto" and not (host and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError("`auto` or `host:port`")
    return address


class RaySettings(EngineSettings):
    """Keys for Ray.

    A Ray that is started on this machine has `workers` CPUs; a cluster at `address` uses what it has. `pending` tasks
    are submitted at a time (default: four for each CPU of the cluster). A task that died with its process or its node
    is run again `retries` times. Vectors are encoded by `encoders` processes with `gpus` GPUs each (default: as many as
    the cluster has room for, with one GPU each if it has any). The cluster, and every node of it, must answer within
    `wait_seconds`.
    """

    workers: Annotated[int, Field(ge=1, le=1024)] = 2
    # None: RAY_ADDRESS, or a Ray that is started on this machine.
    address: Annotated[str, AfterValidator(_address)] | None = None
    pending: Count | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = 3
    gpus: Annotated[float, Field(ge=0, le=16)] | None = None
    encoders: Annotated[int, Field(ge=1, le=1024)] | None = None
    wait_seconds: Annotated[float, Field(gt=0, le=3600)] = 60
