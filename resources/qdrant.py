"""The vector store: Qdrant's engine in this process, or a Qdrant server, behind one small protocol.

With `QDRANT_URL` set, everything goes to that server (with `QDRANT_API_KEY` if set), otherwise to the embedded engine
under the home folder. There is no fallback from one to the other.
"""

from __future__ import annotations

import os
from pathlib import Path

from mog_assets.resources.qdrant_embedded import EmbeddedQdrant
from mog_assets.resources.qdrant_server import QdrantServer
from mog_assets.resources.vector_store import VectorStore, VectorStoreSettings


def connect(home: Path, settings: VectorStoreSettings | None = None) -> VectorStore:
    """The vector store that the environment selects."""
    url = os.environ.get("QDRANT_URL")
    vectors = (settings or VectorStoreSettings()).vectors
    if url:
        return QdrantServer(url, os.environ.get("QDRANT_API_KEY"), vectors=vectors)
    return EmbeddedQdrant(home / "qdrant", vectors=vectors)
