"""What must hold of a collection before its manifest says that it is there."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np

from resources.qdrant import VectorStore
from resources.recipe import Check, Work


def collection_fault(store: VectorStore, level: int, size: int, corpus: str, ids: Path) -> str | None:
    """What is wrong with the points of a corpus, compared with the ids of its manifest."""
    expected = {str(uuid.UUID(bytes=row.tobytes())) for row in np.load(ids)}
    with store.open(f"level_{level}", size) as collection:
        held = collection.ids(corpus)
        count = collection.count(corpus)
    if held != expected or count != len(expected):
        return (
            f"collection level_{level} holds {count} points of corpus {corpus}, expected {len(expected)} "
            f"({len(expected - held)} missing, {len(held - expected)} too many): run `mog run`"
        )
    return None


def qdrant_holds(level: int) -> Check:
    """Qdrant holds the points of the manifest and no others."""

    def run(work: Work) -> str | None:
        return collection_fault(
            work.tools.qdrant, level, work.info["size"], str(work.corpus), work.draft.path("ids.npy")
        )

    return Check("qdrant_count", "Qdrant holds exactly the points of this corpus that the manifest names.", run)
