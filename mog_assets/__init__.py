"""Dagster assets that build retrieval with a granularity chosen per query from document collections."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "open"]

if TYPE_CHECKING:
    from mog_assets.serving.project import open

# Module of each name that is imported when it is first used: `import mog_assets` takes no time.
_LAZY = {"open": "mog_assets.serving.project"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
