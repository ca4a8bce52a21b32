"""Points of pieces: their payloads and ids."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mog_assets.plugins.qdrant.collections import Sparse
from mog_assets.text.chunks import Layout

_NAMESPACE = uuid.UUID("6d6f672d-6173-7365-7473-2f706f696e74")
Payload = dict[str, Any]


def payloads(layout: Layout, first: int, fields: dict[str, tuple[Sequence[Any], np.ndarray]]) -> list[Payload]:
    """Return what points tell of the pieces of a bucket: `document`, `start` and `end`, and what else is known of each.

    Args:
        layout: Of the bucket.
        first: Its first piece in the corpus.
        fields: Of the corpus: by name the different values, and which of them each piece has; see `search.where.Items`.
    """
    places = zip(*(column.tolist() for column in layout.chunk_spans(np.arange(layout.count(1)), 1)), strict=True)
    return [
        {
            "document": layout.documents[document],
            "start": start,
            "end": end,
            **{name: values[which[first + piece]] for name, (values, which) in fields.items()},
        }
        for piece, (document, start, end) in enumerate(places)
    ]


def point_ids(payloads: Sequence[Payload], vectors: Iterable[np.ndarray], words: Sequence[Sparse]) -> list[str]:
    """Return ids of points: hashes of all that they hold, so that none is ever stale.

    Settings are not part of an id: after one is changed and changed back, the ids are those of a rebuilt project.
    """
    ids = []
    for payload, vector, sparse in zip(payloads, vectors, words, strict=True):
        digest = hashlib.sha256(vector.tobytes())
        digest.update(np.array(sparse.indices, np.uint32).tobytes() + np.array(sparse.values, np.float32).tobytes())
        facts = json.dumps(payload, sort_keys=True, ensure_ascii=False)
        ids.append(str(uuid.uuid5(_NAMESPACE, f"{facts}\0{digest.hexdigest()}")))
    return ids
