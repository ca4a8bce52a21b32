"""The key `permissions` of `mog.yaml`: the file that says who may see which documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mog_assets import registry
from mog_assets.config import Section, Settings
from mog_assets.resources.settings import Place

if TYPE_CHECKING:
    from mog_assets.plugins.permissions.rules import Permissions


def _opened(settings: Settings) -> Permissions | None:
    path = PERMISSIONS.of(settings)
    if path is None:
        return None
    from mog_assets.plugins.permissions.rules import Permissions

    return Permissions(path)


# None: whoever may ask may see all.
PERMISSIONS: Section[Path | None] = Section("permissions", Place | None, None)
registry.SECTIONS.register("permissions", PERMISSIONS)
registry.AUTHORIZERS.register("permissions", _opened)
