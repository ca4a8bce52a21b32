"""The topic model: BERTopic finds topics in a sample of chunks; the stored model assigns a topic to any vector.

Only the centroids, thresholds and words of BERTopic's result are stored, not UMAP and HDBSCAN: the topic of a vector is
that of the nearest centroid, for chunks and questions alike, so it depends only on the stored model and the vector.

References: Grootendorst 2022 (BERTopic), sections 3.1 to 3.3; Rezaei et al. 2024 (AT-RAG), section 3.1.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.index.encoding import VectorBucket
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact
from mog_assets.resources.tensors import decode, encode, read

# Logical name of the model among its artefact's files.
MODEL = "model.safetensors"
# Topic of a vector that is not near any topic.
OUTLIER = -1

# BERTopic's defaults.
NEIGHBOURS, COMPONENTS = 15, 5
_LABEL_TERMS = 3
OUTLIER_LABEL = "outlier"
# Share of the chunks outside a topic that are farther from it than any vector assigned to the topic.
FAR = 0.999
# Cosines are compared after rounding: the summation order of a library must not decide on a topic.
DECIMALS = 6
_ROWS_AT_ONCE = 65_536
# Part of what a model was made with: raised when other facts are stored, or stored facts are made otherwise.
FORM = 3


@dataclass(frozen=True)
class Bucket:
    """The files of a bucket: paths of its documents, of their level-1 spans, and of the vectors of a level.

    `level` is None if it is that of the model: a corpus with fewer levels has vectors of its coarsest one. With
    `pooled`, the vectors are those of level 1, and the level's are pooled from them (see `VectorBucket`).
    """

    documents: str
    spans: str
    vectors: str
    level: int | None = None
    pooled: int | None = None

    @property
    def vector_bucket(self) -> VectorBucket:
        """Its vectors."""
        return VectorBucket(self.documents, self.spans, self.vectors, self.pooled)


@dataclass(frozen=True)
class TopicModel:
    """Assigns topics to vectors.

    Attributes:
        centroids: float32 of shape (topics, size): unit vectors, row t the mean of the vectors of topic t.
        thresholds: float32 of shape (topics,): cosine with the centroid below which a vector is not of the topic.
        seen: uint64, sorted: `vector_hashes` of all chunks that existed when it was fitted.
        facts: `level`, `settings`, `seed`, `encoder` (fingerprint) and `made_by` (of the vectors) that it was fitted
            with; per topic its `words` by BERTopic, the best first, and its `size` in the sample; the number of chunks
            in the `sample`, of its `outliers` by HDBSCAN, and of those `agreeing`: with the same topic by `assign` and
            HDBSCAN.
    """

    centroids: np.ndarray
    thresholds: np.ndarray
    seen: np.ndarray
    facts: dict[str, Any]

    @property
    def labels(self) -> dict[int, str]:
        """Label of every topic, all different: its first terms. The outlier topic has one too."""
        words = self.facts["words"]
        labels = distinct([", ".join(terms[:_LABEL_TERMS]) for terms in words], words)
        return {OUTLIER: OUTLIER_LABEL, **dict(enumerate(labels))}

    def assign(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return topic of each vector: that of the nearest centroid, or −1 if the vector is below its threshold.

        Args:
            vectors: Unit vectors of the encoder it was fitted with, shape (n, size).

        Returns:
            int32 topics of shape (n,), and float32 probabilities of shape (n,) in [0, 1]: the cosine with the centroid
            as in BERTopic's own transform of a stored model, 0 for negative cosines and outliers.

        Raises:
            MogError: the vectors have another size.
        """
        n = len(vectors)
        topics, probabilities = np.full(n, OUTLIER, np.int32), np.zeros(n, np.float32)
        if not len(self.centroids):
            return topics, probabilities
        size, wanted = np.shape(vectors)[1], self.centroids.shape[1]
        if size != wanted:
            raise MogError(f"topics/model: expected vectors of size {wanted}, got size {size}: run `mog run`")
        centroids = self.centroids.T.astype(np.float64)
        for start in range(0, n, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            cosines = np.round(np.asarray(vectors[rows], np.float64) @ centroids, DECIMALS)
            best = cosines.argmax(axis=1)
            cosine = cosines[np.arange(len(best)), best]
            near = cosine >= np.round(self.thresholds.astype(np.float64)[best], DECIMALS)
            topics[rows] = np.where(near, best, OUTLIER)
            probabilities[rows] = np.where(near, np.clip(cosine, 0, 1), 0)
        return topics, probabilities


def distinct(labels: Sequence[str], words: Sequence[Sequence[str]]) -> list[str]:
    """Return labels that differ from each other: equal ones get a term of their topic that others lack, or a number.

    Args:
        labels: Of the topics, in order; an empty one becomes `topic` with its number.
        words: Of each topic.
    """
    wanted = [label or f"topic {topic}" for topic, label in enumerate(labels)]
    times = Counter(label.casefold() for label in wanted)
    titles: list[str] = []
    taken = {OUTLIER_LABEL}
    for topic, label in enumerate(wanted):
        if times[label.casefold()] > 1:
            equal = [t for t, other in enumerate(wanted) if t != topic and other.casefold() == label.casefold()]
            others = {word for t in equal for word in words[t]}
            more = [word for word in words[topic] if word not in others and word.casefold() not in label.casefold()]
            label = f"{label} ({more[0]})" if more else label
        number, plain = 2, label
        while label.casefold() in taken:
            label, number = f"{plain} ({number})", number + 1
        taken.add(label.casefold())
        titles.append(label)
    return titles


def vector_hashes(vectors: np.ndarray) -> np.ndarray:
    """Return hashes of rows of float16 vectors, uint64 of shape (n,): they identify chunks, and select samples."""
    rows = np.ascontiguousarray(vectors)
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), np.uint64)


def share_unseen(model: TopicModel, hashes: Sequence[np.ndarray]) -> float:
    """Return share of chunks, given as `vector_hashes` per bucket, that were in no corpus when the model was fitted."""
    every = np.concatenate([np.zeros(0, np.uint64), *hashes])
    return float((~np.isin(every, model.seen)).mean()) if len(every) else 0.0


def encoded(model: TopicModel) -> bytes:
    """Return a model as a safetensors file."""
    arrays = {"centroids": model.centroids, "thresholds": model.thresholds, "seen": model.seen}
    return encode(arrays, model.facts)


def open_model(stored: Artefact, encoder: str | None = None) -> TopicModel:
    """Return the topic model that is stored.

    Args:
        stored: Its artefact.
        encoder: Fingerprint of the encoder of the vectors to assign; None for the one that it was fitted with.

    Raises:
        MogError: its file has changed since it was written, or it was fitted on vectors of another encoder.
    """
    path = stored.path(MODEL)
    model = decoded(read(stored, MODEL, "topic model"), path)
    if encoder not in (None, model.facts["encoder"]):
        raise MogError(
            f"topic model {path}: expected a model for vectors of encoder {encoder}, got one for "
            f"{model.facts['encoder']}: run `mog run`"
        )
    return model


def decoded(data: bytes, path: Path) -> TopicModel:
    """Return the model in the bytes of a file.

    Raises:
        MogError: they are not a topic model.
    """
    try:
        arrays, facts = decode(data)
        model = TopicModel(arrays["centroids"], arrays["thresholds"], arrays["seen"], facts)
        topics = {len(model.centroids), len(model.thresholds), len(facts["words"]), len(facts["size"])}
    except (KeyError, TypeError, ValueError) as error:
        raise MogError(
            f"topic model {path}: expected a safetensors file of a topic model ({error}): run `mog run`"
        ) from error
    if len(topics) != 1:
        raise MogError(f"topic model {path}: expected as many centroids as thresholds and words: run `mog run`")
    return model


def is_intact(stored: Artefact) -> bool:
    """Return whether a stored model can be used."""
    try:
        open_model(stored)
    except MogError:
        return False
    return True
