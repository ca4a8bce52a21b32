"""Flags of `mog serve` and `mog mcp`: who pushes documents, and runs that are started when some were."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mog_assets.config import Settings
from mog_assets.registry import SERVER_FLAGS
from mog_assets.resources.errors import ConfigError
from mog_assets.serve.hooks import ServerFlag

if TYPE_CHECKING:
    from mog_assets.plugins.pushing.live import Live


def _live(settings: Settings, config: Path) -> Live:
    """Start what starts runs when documents are pushed.

    Raises:
        ConfigError: there is no corpus that takes any.
    """
    from mog_assets.plugins.pushing.live import Live
    from mog_assets.plugins.pushing.pushed import files_of

    files = list(files_of(settings).values())
    if not files:
        raise ConfigError("--live: expected a corpus whose source is `pushed://FILE`, got none")
    return Live(config, files)


_RULES = "with permissions, these say who may."
SERVER_FLAGS.register(
    "push",
    ServerFlag(f"Let callers push documents; {_RULES}", for_agents=f"Let the agent push documents, too; {_RULES}"),
)
SERVER_FLAGS.register("live", ServerFlag("Run `mog run` when documents were pushed.", start=_live))
