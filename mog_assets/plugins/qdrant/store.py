"""Qdrant's engine in this process, or a Qdrant server, behind one small protocol.

With `QDRANT_URL` set, everything goes to that server (with `QDRANT_API_KEY` if set), otherwise to the embedded engine
under the home folder. There is no fallback from one to the other.
"""

from __future__ import annotations

import os
from pathlib import Path

from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.plugins.qdrant.collections import Collections
from mog_assets.plugins.qdrant.embedded import EmbeddedQdrant
from mog_assets.plugins.qdrant.server import QdrantServer
from mog_assets.plugins.qdrant.settings import QDRANT, QdrantSettings

# Its name among vector stores, and the key of its asset.
NAME = ASSET = "qdrant"
# Begins the names of collections: other programs may have some on the same server.
PREFIX = "mog_"


def connect(home: Path, settings: QdrantSettings | None = None) -> Collections:
    """Return the collections that the environment selects."""
    url = os.environ.get("QDRANT_URL")
    vectors = (settings or QdrantSettings()).vectors
    if url:
        return QdrantServer(url, os.environ.get("QDRANT_API_KEY"), vectors=vectors)
    return EmbeddedQdrant(home / "qdrant", vectors=vectors)


def is_used(settings: Settings) -> bool:
    """Return whether the environment or `mog.yaml` names Qdrant."""
    return bool(os.environ.get("QDRANT_URL")) or QDRANT.of(settings) is not None


def name_of(corpus: str) -> str:
    """Return the name of a corpus' collection."""
    return f"{PREFIX}{corpus}"


def vectors_of(settings: Settings) -> str:
    """Return how vectors are stored."""
    return (QDRANT.of(settings) or QdrantSettings()).vectors


def collections_of(tools: Tools) -> Collections:
    """Return what is open of Qdrant."""
    return tools.opened(_connected)


def _connected(tools: Tools) -> Collections:
    return connect(tools.settings.home, QDRANT.of(tools.settings))
