"""Flags of the server that parts beside the core add, through `registry.SERVER_FLAGS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mog_assets.config import Settings


class Closing(Protocol):
    """Goes on beside the server."""

    def close(self) -> None:
        """End with it."""


@dataclass(frozen=True)
class ServerFlag:
    """A flag of `mog serve`: if `--shelf` is given, `shelf` is in `ServerOptions.flags`.

    Attributes:
        help: What it does.
        for_agents: What it does for the tools of agents (the plugin `agents`); empty if those do not have it.
        start: Called with the settings and their file, if the flag is given, before `mog serve` answers.
    """

    help: str
    for_agents: str = ""
    start: Callable[[Settings, Path], Closing] | None = None
