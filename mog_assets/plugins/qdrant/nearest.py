"""The nearest chunks of corpora by Qdrant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.plugins.qdrant.ids import IdSet, packed_ids, stored_ids
from mog_assets.plugins.qdrant.store import ASSET, collections_of

# Chunks that Qdrant is asked for, for each that is wanted (see benchmarks/README.md).
_OVERSAMPLED = 2


def nearest(
    tools: Tools,
    corpora: Corpora,
    vectors: np.ndarray,
    level: int,
    k: int,
    where: Sequence[dict[str, int]] | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Find the k nearest chunks of each corpus, whose payload a question's `where` gives; see `level_search.merge`.

    Qdrant may hold rounded vectors: it is asked for more chunks, which are then compared exactly.
    """
    nearest, table = [], corpora.vectors(level)
    with collections_of(tools).open(f"level_{level}", vectors.shape[1]) as collection:
        for name, number, start in zip(
            corpora.names, _point_numbers(corpora, level), corpora.starts(level), strict=True
        ):
            chunks = np.full((len(vectors), k), -1, np.int64)
            scores = np.zeros((len(vectors), k))
            for row, hits in enumerate(collection.search(name, vectors, _OVERSAMPLED * k, where)):
                # Points of chunks that are being replaced right now are in no manifest.
                near = number.find(packed_ids(identity for identity, _ in hits))
                near = near[near >= 0]
                exact = table.rows(start + near).astype(np.float32) @ np.asarray(vectors[row], np.float32)
                best = np.lexsort((near, -exact))
                best = best[exact[best] != 0][:k]
                chunks[row, : len(best)], scores[row, : len(best)] = near[best], exact[best]
            nearest.append((chunks, scores))
    return nearest


def _point_numbers(corpora: Corpora, level: int) -> list[IdSet]:
    """Return the ids of a level's points in order of their chunks, per corpus."""

    def numbers() -> list[IdSet]:
        stored = [corpora.read(f"{ASSET}/level_{level}", name) for name in corpora.names]
        return [IdSet(stored_ids(artefact.path("ids.npy"))) for artefact in stored]

    ids: list[IdSet] = corpora.once(("points", level), numbers)
    return ids
