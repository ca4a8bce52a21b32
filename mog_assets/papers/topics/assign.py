"""Topics of the chunks of a corpus, kept per level and bucket, and as values of documents that filters ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import VectorBucket
from mog_assets.papers.topics.model import OUTLIER_LABEL, decoded
from mog_assets.resources.errors import MissingArtefact
from mog_assets.resources.files import save_array
from mog_assets.resources.store import Artefact, label
from mog_assets.search.where import FIELDS, Field, Items

Assigned = np.ndarray  # of _ROW, shape (n,): `topic` and `probability`, see `TopicModel.assign`

# Probabilities in payloads and filters, in decimals.
DECIMALS = 4

# In filters.
_NAMES = ("topic", "topic.label", "topic.probability")
_ROW = np.dtype([("topic", "<i4"), ("probability", "<f4")])


def file_name(level: int, bucket: str) -> str:
    """Return logical name of the topics of a bucket's chunks of a level; `bucket` names the file of its vectors."""
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
    vectors = VectorBucket(**bucket).open()
    rows = np.empty(len(vectors), _ROW)
    rows["topic"], rows["probability"] = decoded(Path(model).read_bytes(), Path(model)).assign(vectors)
    save_array(Path(out), rows)
    return len(rows)


def read_assigned(paths: Sequence[Path]) -> Assigned:
    """Return topics and probabilities in the files of some buckets."""
    return np.concatenate([np.empty(0, _ROW), *(np.load(path) for path in paths)])


def read_topics(stored: Artefact, level: int) -> np.ndarray:
    """Return topic of every chunk of a level (int32; −1: outlier), in the order of the corpus' layout."""
    return read_assigned([stored.path(name) for name in stored.names(file_name(level, "bucket"))])["topic"]


def labels_of(stored: Artefact) -> list[str]:
    """Return the labels of the topics that chunks of a corpus were given, in order."""
    labels: list[str] = stored.manifest.info["labels"]
    return labels


def document_topics(corpora: Corpora) -> Items:
    """Return topic, label and probability of the level-1 chunks of all documents, for filters.

    Raises:
        MissingArtefact: topics have not been built, or not since the chunks changed.
    """
    documents, rows, labels = [], [], []
    first = 0
    for name, layout in zip(corpora.names, corpora.layouts, strict=True):
        try:
            stored = corpora.read("topics/assigned", name)
        except MissingArtefact as error:
            raise MissingArtefact(f"where.topic: expected topics of corpus {name}, got none: {error}") from error
        finest = read_assigned([stored.path(file) for file in stored.names(file_name(1, "bucket"))])
        label_of = labels_of(stored)
        if len(finest) != layout.count(1):
            raise MissingArtefact(
                f"where.topic: expected topics of the {layout.count(1)} chunks of corpus {name}, got "
                f"{label('topics/assigned', name)} of an earlier state: run `mog run`, or "
                "`mog run --select topics/assigned` if no configured method needs them"
            )
        rows.append(finest)
        documents.append(first + np.repeat(np.arange(len(layout.documents)), np.diff(layout.level_offsets(1))))
        labels.append(np.array([OUTLIER_LABEL, *label_of], object)[finest["topic"] + 1])
        first += len(layout.documents)
    every = np.concatenate(rows)
    values = {}
    shares = np.round(every["probability"].astype(np.float64), DECIMALS)
    for name, column in zip(_NAMES, (every["topic"], np.concatenate(labels), shares), strict=True):
        distinct, which = np.unique(column, return_inverse=True)
        values[name] = (distinct.tolist(), which)
    return Items(np.concatenate(documents), values)


TOPICS = Field("topics/assigned", document_topics)
for _name in _NAMES:
    FIELDS.register(_name, TOPICS)
