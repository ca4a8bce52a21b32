"""The settings that results depend on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mog_assets.config import Settings
from mog_assets.registry import SECTIONS
from mog_assets.resources.store import digest

# Settings that say when and where something runs.
_NO_MATTER = {"automation": ("interval_seconds", "nightly", "timezone"), "encoder": ("device",)}


def shown_configuration(settings: Settings) -> dict[str, Any]:
    """The settings that a result depends on, as JSON values; paths without their folders."""
    chosen = settings.model_dump(mode="json", exclude={"home", "engine", "automation", "experiments"})
    for section in ("corpora", "question_sets"):
        for entry in chosen[section].values():
            # Questions that are made or noted have no file.
            entry["path"] = entry["path"] and Path(entry["path"]).name
    chosen["encoder"] = {name: v for name, v in chosen["encoder"].items() if name not in _NO_MATTER["encoder"]}
    if Path(settings.encoder.model).is_absolute():
        chosen["encoder"]["model"] = Path(settings.encoder.model).name
    if not settings.asks_a_model:
        del chosen["llm"]
    return chosen


def configuration(settings: Settings) -> str:
    """Digest of the settings in mog.yaml that scores depend on, without paths and execution settings."""
    # Questions that are made or noted differ from one evaluation to the next, and only those of both are compared.
    exclude = {"home", "corpora", "question_sets", "engine", "llm", "answering"}
    exclude |= {name for name, section in SECTIONS.items() if not section.scored}
    chosen = settings.model_dump(mode="json", exclude=exclude)
    for section, names in _NO_MATTER.items():
        chosen[section] = {name: value for name, value in chosen[section].items() if name not in names}
    sets = {name: [q.corpora, q.train, q.test] for name, q in settings.question_sets.items()}
    return digest(chosen, sorted(settings.corpora), sets)
