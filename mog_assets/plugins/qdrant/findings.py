"""What `mog doctor` finds of Qdrant."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from mog_assets.plugins.qdrant.collections import Points, Sparse
from mog_assets.plugins.qdrant.embedded import EmbeddedQdrant

if TYPE_CHECKING:
    from mog_assets.cli.findings import Finding


def findings() -> Iterator[Finding]:
    """Check what the environment selects: the embedded engine, or a server."""
    from mog_assets.cli.findings import OK, PROBLEM, Finding, get

    url, key = os.environ.get("QDRANT_URL"), os.environ.get("QDRANT_API_KEY")
    if not url:
        with tempfile.TemporaryDirectory() as folder, EmbeddedQdrant(Path(folder)).open("doctor", 2) as collection:
            identity = "00000000-0000-4000-8000-000000000000"
            point = Points([identity], np.array([[1, 0]], np.float32), [Sparse([7], [1.0])], [{}])
            collection.upsert(point)
            ((hit, _),) = collection.nearest(point.vectors, 1)[0]
            assert collection.matching(point.words, 1)[0][0][0] == hit
            assert hit == identity
        yield Finding("qdrant", OK, f"embedded engine {metadata.version('qdrant-edge-py')}: writes and searches")
        return
    # qdrant-client uses port 6333 if the URL names none.
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.hostname}:{parts.port or 6333}{parts.path.rstrip('/')}"
    headers = {"api-key": key} if key else {}
    status, body = get(f"{place}/collections", headers)
    if status in (401, 403):
        problem = "does not accept QDRANT_API_KEY" if key else "requires a key, and QDRANT_API_KEY is not set"
        yield Finding("qdrant", PROBLEM, f"{place} {problem} ({status})", "set QDRANT_API_KEY to one of its keys")
    elif status != 200:
        remedy = "start it, correct QDRANT_URL, or unset it for the embedded engine"
        yield Finding("qdrant", PROBLEM, f"{place}: {body if status is None else f'status {status}'}", remedy)
    else:
        _, root = get(place, headers)
        version = re.search(r'"version":\s*"([^"]+)"', root)
        yield Finding("qdrant", OK, f"server {version[1] if version else 'of unknown version'} at {place}")
