"""Fit a topic model on the vectors of chunks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.index.encoding import bucket_texts
from mog_assets.index.layouts import bucket_layout
from mog_assets.papers.compiled import keep
from mog_assets.papers.topics.hiding import hidden
from mog_assets.papers.topics.model import (
    COMPONENTS,
    FAR,
    FORM,
    HALVINGS,
    NEIGHBOURS,
    OUTLIER,
    TEMPERATURES,
    Bucket,
    TopicModel,
    encoded,
    vector_hashes,
)
from mog_assets.papers.topics.processes import SPAWN, deaf_children, end_with_parent
from mog_assets.papers.topics.settings import TopicSettings
from mog_assets.papers.topics.terms import topic_terms
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
    topics = _cluster(vectors, texts, options, seed)
    number = int(topics.max(initial=OUTLIER)) + 1
    centroids, thresholds = _centroids(vectors, topics, number, options.outlier_quantile)
    facts = {
        **made_with(level, options, seed, encoder, made_by),
        "words": topic_terms(texts, topics, number),
        "size": np.bincount(topics[topics >= 0], minlength=number).tolist(),
        "sample": len(topics),
        "outliers": int((topics == OUTLIER).sum()),
        "temperature": _temperature(vectors, topics, centroids),
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
    answers, answer = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=_fit_and_tell, args=(answer, dict(arguments)))
    with deaf_children():
        process.start()
    # If the process ends without an answer, the pipe then closes too.
    answer.close()
    try:
        fault = answers.recv_bytes().decode()
        process.join()
    except EOFError:
        process.join()
        fault = f"its process ended with exit code {process.exitcode}; where that is -9, lower topics.sample"
    if fault:
        raise MogError(f"topics/model could not be fitted: {fault}")


def _fit_and_tell(answer: Any, arguments: dict[str, Any]) -> None:
    end_with_parent()
    fault = ""
    try:
        fit_buckets(**arguments)
    # Several libraries raise arbitrary exceptions; the waiting process gets the text.
    except Exception as error:
        fault = f"{type(error).__name__}: {' '.join(str(error).split())}"
    answer.send_bytes(fault.encode())


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


def _cluster(vectors: np.ndarray, texts: Sequence[str], settings: TopicSettings, seed: int) -> np.ndarray:
    """Return HDBSCAN's topic of every vector, the largest topic first."""
    # HDBSCAN needs two clusters of the smallest size to find any.
    if len(vectors) < 2 * settings.min_topic_size:
        return np.full(len(vectors), OUTLIER)
    # BERTopic imports them for what is not used here, which takes longer than most fits.
    with extras.needed("topics"), hidden("langchain_core", "openai", "sentence_transformers", "torch", "transformers"):
        from bertopic import BERTopic
    from hdbscan import HDBSCAN
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.neighbors import NearestNeighbors
    from umap import UMAP, layouts, umap_, utils

    # Compiling them takes seconds, and fitting a small sample next to nothing.
    for module in (layouts, umap_, utils):
        keep(*vars(module).values())
    words = CountVectorizer(stop_words="english")
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
    )
    with warnings.catch_warnings():
        # The warning says that new vectors cannot be transformed: centroids do that here.
        warnings.filterwarnings("ignore", "precomputed_knn", UserWarning)
        topics, _ = model.fit_transform(list(texts), vectors)
    return np.asarray(topics, np.int64)


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


def _temperature(vectors: np.ndarray, topics: np.ndarray, centroids: np.ndarray) -> float:
    """Return the temperature at which the softmax of cosines makes the topics of a sample most likely.

    The likelihood is concave in the inverse of the temperature, so its slope has one root; where every vector is
    nearest to the centroid of its topic there is none, and the least temperature is best.
    """
    rows = topics >= 0
    cosines = vectors[rows].astype(np.float64) @ centroids.T.astype(np.float64)
    least, most = 1 / TEMPERATURES[1], 1 / TEMPERATURES[0]
    if not cosines.size:
        return TEMPERATURES[1]
    similarity = float(cosines[np.arange(len(cosines)), topics[rows]].mean())
    largest = cosines.max(axis=1, keepdims=True)
    for _ in range(HALVINGS):
        inverse = float(np.sqrt(least * most))
        shares = np.exp(inverse * (cosines - largest))
        expected = (shares * cosines).sum(axis=1) / shares.sum(axis=1)
        if similarity >= expected.mean():
            least = inverse
        else:
            most = inverse
    return round(float(1 / np.sqrt(least * most)), 4)
