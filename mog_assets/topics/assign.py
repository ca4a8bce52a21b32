"""Topics of the chunks of a corpus, kept per level and bucket."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.arrays import save_array
from mog_assets.retrieval.vectors import VectorBucket
from mog_assets.topics.model import decoded
from resources.store import Artefact

Assigned = np.ndarray  # of _ROW, shape (n,): `topic` and `probability`, see `TopicModel.assign`

_ROW = np.dtype([("topic", "<i4"), ("probability", "<f4")])


def file_name(level: int, bucket: str) -> str:
    """Logical name of the topics of a bucket's chunks of a level; `bucket` names the file of its vectors."""
    return f"level_{level}-{bucket}"


def assign_bucket(bucket: dict[str, Any], model: str, out: str) -> int:
    """Write the topics of the vectors of one bucket.

    Args:
        bucket: Fields of `VectorBucket`.
        model: File of the topic model.
        out: `.npy` file to write.

    Returns:
        Number of vectors.
    """
    held = VectorBucket(**bucket).open()
    rows = np.empty(len(held), _ROW)
    rows["topic"], rows["probability"] = decoded(Path(model).read_bytes(), Path(model)).assign(held)
    save_array(Path(out), rows)
    return len(rows)


def read_assigned(paths: Sequence[Path]) -> Assigned:
    """Topics and probabilities in the files of some buckets."""
    return np.concatenate([np.empty(0, _ROW), *(np.load(path) for path in paths)])


def read_topics(stored: Artefact, level: int) -> np.ndarray:
    """Topic of every chunk of a level (int32; −1: outlier), in the order of the corpus' layout."""
    return read_assigned([stored.path(name) for name in stored.names(file_name(level, "bucket"))])["topic"]
