"""Packages that are not installed, and the command that adds them: most belong to an extra of mog-assets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata

from mog_assets.resources.errors import MogError

DISTRIBUTION = "mog-assets"
# Modules that are not called as the package that has them, or as one that comes with it.
_PACKAGES = {
    "anyio": "fastapi",
    "h11": "uvicorn",
    "haystack": "haystack-ai",
    "jwt": "pyjwt",
    "llama_index": "llama-index-core",
    "mcp_types": "mcp",
    "opentelemetry": "opentelemetry-sdk",
    "PIL": "pillow",
    "qdrant_edge": "qdrant-edge-py",
    "psycopg2": "psycopg2-binary",
    "sklearn": "scikit-learn",
    "starlette": "fastapi",
    "umap": "umap-learn",
}


@cache
def _extras() -> dict[str, str]:
    """Return the extra that asks for a package."""
    extras: dict[str, str] = {}
    for requirement in metadata.requires(DISTRIBUTION) or ():
        package, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == [\"']([\w-]+)", requirement)
        if package and extra and extra[1] not in ("all", "dev"):
            extras.setdefault(_plain(package[0]), extra[1])
    return extras


def _plain(name: str) -> str:
    """Return a name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def command(module: str) -> str:
    """Return what installs a module or a package: `pip install 'mog-assets[EXTRA]'` if it belongs to an extra."""
    top = module.split(".")[0]
    package = _plain(_PACKAGES.get(top, top))
    extra = _extras().get(package)
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {package}"


def missing_package(error: ModuleNotFoundError, what: str) -> str:
    """Return what to tell about a package that is missing."""
    name = error.name or str(error)
    return f"{what} needs the package {name}: {command(name)}"


@contextmanager
def needed(what: str) -> Iterator[None]:
    """Import packages of an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        # A module of the project itself is no package that could be added.
        if (error.name or "").split(".")[0] == "mog_assets":
            raise
        raise MogError(missing_package(error, what)) from error
