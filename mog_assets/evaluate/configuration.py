"""The settings that results depend on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mog_assets.config import Settings

NO_MATTER = {"automation": ("interval_seconds", "nightly", "timezone"), "encoder": ("device",)}
"""Settings that say when and where something runs."""


def shown_configuration(settings: Settings) -> dict[str, Any]:
    """Return the settings that a result depends on, as JSON values; paths without their folders."""
    chosen = settings.model_dump(mode="json", exclude={"home", "engine", "automation", "experiments"})
    for section in ("corpora", "question_sets"):
        for entry in chosen[section].values():
            # Questions that are made or noted have no file.
            entry["path"] = entry["path"] and Path(entry["path"]).name
    chosen["encoder"] = {name: v for name, v in chosen["encoder"].items() if name not in NO_MATTER["encoder"]}
    if Path(settings.encoder.model).is_absolute():
        chosen["encoder"]["model"] = Path(settings.encoder.model).name
    if not settings.asks_a_model:
        del chosen["llm"]
    return chosen
