"""Fit a topic model on the vectors of chunks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.documents.worker import python
from mog_assets.index.encoding import bucket_texts
from mog_assets.index.layouts import bucket_layout
from mog_assets.papers.compiled import keep
from mog_assets.papers.topics.model import (
    COMPONENTS,
    FAR,
    FORM,
    NEIGHBOURS,
    OUTLIER,
    Bucket,
    TopicModel,
    encoded,
    vector_hashes,
)
from mog_assets.papers.topics.settings import TopicSettings
from mog_assets.resources import extras
from mog_assets.resources.errors import MogError


def fit_buckets(
    buckets: Sequence[Mapping[str, Any]],
    level: int,
    settings: Mapping[str, Any],
    seed: int,
    encoder: str,
    made_by: str,
    out: str,
) -> None:
    """Fit a topic model on a sample of the chunks of some buckets, and write it.

    The same chunks, in any buckets, give the same bytes.

    Args:
        buckets: Fields of `Bucket`, as a mapping.
        level: The level of the vectors.
        settings: Fields of `TopicSettings`.
        seed: Of UMAP.
        encoder: Fingerprint of the encoder.
        made_by: Of the vectors: encoder and how levels are made.
        out: `.safetensors` file to write.
    """
    options = TopicSettings.model_validate(settings)
    paths = [Bucket(**bucket) for bucket in buckets]
    hashes = [vector_hashes(bucket.vector_bucket.open()) for bucket in paths]
    seen = np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]))
    vectors, texts = _sample(paths, hashes, level, seen[: options.sample])
    topics, words = _cluster(vectors, texts, options, seed)
    number = len(words)
    centroids, thresholds = _centroids(vectors, topics, number, options.outlier_quantile)
    facts = {
        **made_with(level, options, seed, encoder, made_by),
        "words": words,
        "size": np.bincount(topics[topics >= 0], minlength=number).tolist(),
        "sample": len(topics),
        "outliers": int((topics == OUTLIER).sum()),
    }
    model = TopicModel(centroids, thresholds, seen, facts)
    facts["agreeing"] = int((model.assign(vectors)[0] == topics).sum())
    Path(out).write_bytes(encoded(model))


def may_have_topics(buckets: Sequence[Bucket], settings: TopicSettings) -> bool:
    """Return whether there are enough chunks for HDBSCAN: it needs two clusters of the smallest size to find any."""
    return sum(bucket.vector_bucket.count for bucket in buckets) >= 2 * settings.min_topic_size


def made_with(level: int, settings: TopicSettings, seed: int, encoder: str, made_by: str) -> dict[str, Any]:
    """Return the part of a model's facts that changes the model of the same chunks."""
    # Neither the rule for fitting again nor names change the result.
    return {
        "level": level,
        "settings": settings.model_dump(exclude={"refit_share", "names"}),
        "seed": seed,
        "encoder": encoder,
        "made_by": made_by,
        "form": FORM,
    }


def fit_apart(arguments: Mapping[str, Any]) -> None:
    """Run `fit_buckets` in a separate process.

    numba's OpenMP threads, which UMAP starts, leave torch on the CPU twenty times slower for the rest of a process
    (measured: 3 instead of 64 texts a second).

    Raises:
        MogError: that process failed or was killed.
    """
    # There may be more buckets than an argument of a program can name.
    command, pipe = python(__name__, ""), subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stderr is not None
        # Its standard input stays open as long as this process lives: see `main`.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
        errors = process.stderr.read()
    if process.returncode:
        fault = f"its process ended with exit code {process.returncode}; where that is -9, lower topics.sample"
        if process.returncode == 1 and (lines := errors.strip().splitlines()):
            fault = lines[-1]
        raise MogError(f"topics/model could not be fitted: {fault}")


def main(_: str) -> None:
    """Fit as the first line of standard input says; whoever started this process and is killed ends it, too."""
    arguments = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    # BERTopic imports them for what is not used here, which takes longer than most fits.
    for unused in ("langchain_core", "openai", "sentence_transformers", "transformers"):
        sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    fit_buckets(**arguments)


def _end_with_input() -> None:
    """End this process at the end of its standard input."""
    sys.stdin.read()
    os._exit(1)


def _sample(
    buckets: Sequence[Bucket], hashes: Sequence[np.ndarray], level: int, wanted: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Return vectors and texts of the chunks with these hashes (sorted), one each, in their order."""
    vectors: dict[int, np.ndarray] = {}
    texts: dict[int, str] = {}
    for bucket, hashes_of in zip(buckets, hashes, strict=True):
        rows = np.flatnonzero(np.isin(hashes_of, wanted))
        if not len(rows):
            continue
        layout = bucket_layout(Path(bucket.documents), Path(bucket.spans))
        own_level = bucket.level or level
        stored_vectors, of_bucket = bucket.vector_bucket.open(), bucket_texts(Path(bucket.documents), layout, own_level)
        for row in rows:
            # Chunks with equal vectors may have different texts; which of them is used must not depend on order.
            identity = int(hashes_of[row])
            vectors[identity] = stored_vectors[row]
            texts[identity] = min(of_bucket[row], texts.get(identity, of_bucket[row]))
    order = [int(identity) for identity in wanted]
    size = buckets[0].vector_bucket.open().shape[1]
    stacked = np.stack([vectors[i] for i in order]) if order else np.zeros((0, size))
    return stacked.astype(np.float32), [texts[i] for i in order]


def _cluster(
    vectors: np.ndarray, texts: Sequence[str], settings: TopicSettings, seed: int
) -> tuple[np.ndarray, list[list[str]]]:
    """Return HDBSCAN's topic of every vector, the largest topic first, and the words of each topic."""
    # HDBSCAN needs two clusters of the smallest size to find any.
    if len(vectors) < 2 * settings.min_topic_size:
        return np.full(len(vectors), OUTLIER), []
    with extras.needed("topics"):
        from bertopic import BERTopic
        from bertopic.vectorizers import ClassTfidfTransformer
    from hdbscan import HDBSCAN
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.neighbors import NearestNeighbors
    from umap import UMAP, layouts, umap_, utils

    # Compiling them takes seconds, and fitting a small sample next to nothing.
    for module in (layouts, umap_, utils):
        keep(*vars(module).values())
    words = CountVectorizer(stop_words="english", token_pattern=r"\b[^\W\d]\w+\b")
    analyse = words.build_analyzer()
    # BERTopic fails on fewer than two words; with white space around it, a text has at least two characters.
    if len({word for text in texts for word in analyse(text)}) < 2:
        words = CountVectorizer(analyzer="char_wb")
    # Exact, and avoids compiling UMAP's own search, which takes longer than the search of a whole sample.
    neighbours = min(NEIGHBOURS, len(vectors) - 1)
    search = NearestNeighbors(n_neighbors=neighbours, metric="cosine", algorithm="brute").fit(vectors)
    distances, rows = search.kneighbors(vectors)
    model = BERTopic(
        # Not English, which removes all characters outside its alphabet.
        language="multilingual",
        umap_model=UMAP(
            n_neighbors=neighbours,
            n_components=min(COMPONENTS, len(vectors) - 2),
            precomputed_knn=(rows.astype(np.int32), distances.astype(np.float32)),
            min_dist=0.0,
            metric="cosine",
            random_state=seed,
            n_jobs=1,
        ),
        hdbscan_model=HDBSCAN(min_cluster_size=settings.min_topic_size, core_dist_n_jobs=1),
        vectorizer_model=words,
        ctfidf_model=ClassTfidfTransformer(reduce_frequent_words=True),
    )
    with warnings.catch_warnings():
        # The warning says that new vectors cannot be transformed: centroids do that here.
        warnings.filterwarnings("ignore", "precomputed_knn", UserWarning)
        topics, _ = model.fit_transform(list(texts), vectors)
    number = max(topics, default=OUTLIER) + 1
    return np.asarray(topics, np.int64), [[word for word, _ in model.get_topic(t) if word] for t in range(number)]


def _centroids(vectors: np.ndarray, topics: np.ndarray, number: int, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """Return unit mean vector of every topic, and the least cosine with it of a vector of the topic.

    That is the `quantile` of the members' cosines, or, if lower, a cosine that hardly any other chunk reaches: nearly
    equal members, such as boilerplate, must not exclude a question about them.
    """
    centroids = np.zeros((number, vectors.shape[1]), np.float32)
    thresholds = np.zeros(number, np.float32)
    for topic in range(number):
        members = vectors[topics == topic].astype(np.float64)
        mean = members.mean(axis=0)
        centroids[topic] = mean / max(float(np.linalg.norm(mean)), 1e-12)
        cosines = vectors @ centroids[topic]
        of_topic = topics == topic
        thresholds[topic] = np.quantile(cosines[of_topic], quantile)
        if not of_topic.all():
            thresholds[topic] = min(thresholds[topic], np.quantile(cosines[~of_topic], FAR))
    return centroids, thresholds
