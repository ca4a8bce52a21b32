"""Dagster assets that build retrieval with a granularity chosen per query from document collections."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mog_assets.build.automation import definitions as definitions
    from mog_assets.build.component import Retrieval as Retrieval
    from mog_assets.serve.project import open as open

__version__ = "0.1.0"
# Module of each name that is imported on first use: `import mog_assets` alone imports neither Dagster nor a model.
_LAZY = {
    "Retrieval": "mog_assets.build.component",
    "definitions": "mog_assets.build.automation",
    "open": "mog_assets.serve.project",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    # `dg` looks at each name, in environments that cannot build: `definitions` would import all that builds.
    return sorted({*globals(), *_LAZY} - {"definitions"})
