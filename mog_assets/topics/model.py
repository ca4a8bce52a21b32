"""The topic model: BERTopic finds topics in a sample of chunks; the stored model assigns a topic to any vector.

Only the centroids, thresholds and words of BERTopic's result are stored, not UMAP and HDBSCAN: the topic of a vector is
that of the nearest centroid, for chunks and questions alike, so it depends only on the stored model and the vector.

References: Grootendorst 2022 (BERTopic), sections 3.1 to 3.3; Rezaei et al. 2024 (AT-RAG), section 3.1.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mog_assets.chunking.layouts import bucket_layout
from mog_assets.compiled import hidden, keep
from mog_assets.config import TopicSettings
from mog_assets.resources.errors import MogError
from mog_assets.resources.processes import SPAWN, deaf_children, end_with_parent
from mog_assets.resources.store import Artefact
from mog_assets.retrieval.vectors import VectorBucket, bucket_texts
from mog_assets.tensors import decode, encode, read
from mog_assets.topics.terms import topic_terms

# Logical name of the model among its artefact's files.
MODEL = "model.safetensors"
# Topic of a vector that is not near any topic.
OUTLIER = -1

# BERTopic's defaults.
_NEIGHBOURS, _COMPONENTS = 15, 5
_LABEL_TERMS = 3
# Titles that stand for a topic.
_TITLES, _TITLE_CHARS = 5, 120
OUTLIER_LABEL = "outlier"
# Share of the chunks outside a topic that are farther from it than any vector assigned to the topic.
_FAR = 0.999
# Cosines are compared after rounding: the summation order of a library must not decide on a topic.
_DECIMALS = 6
_ROWS_AT_ONCE = 65_536
# Between which the temperature of distributions is sought, and in how many steps: to a hundredth of itself.
_TEMPERATURES, _HALVINGS = (0.01, 1.0), 12
# Part of what a model was made with: raised when other facts are stored, or stored facts are made otherwise.
_FORM = 2


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
    def held(self) -> VectorBucket:
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
            with; per topic its `words` (see `topic_terms`), `titles` of the documents nearest to its centroid, and its
            `size` in the sample; the number of chunks in the `sample`, of its `outliers` by HDBSCAN, and of those
            `agreeing`: with the same topic by `assign` and HDBSCAN; the `temperature` of `distribution`.
        names: Label of every topic, if it was given other ones than its terms.
    """

    centroids: np.ndarray
    thresholds: np.ndarray
    seen: np.ndarray
    facts: dict[str, Any]
    names: tuple[str, ...] | None = None

    @property
    def labels(self) -> dict[int, str]:
        """Label of every topic, all different: its name, else its first terms. The outlier topic has one too."""
        words = self.facts["words"]
        titles = self.names or distinct([", ".join(terms[:_LABEL_TERMS]) for terms in words], words)
        return {OUTLIER: OUTLIER_LABEL, **dict(enumerate(titles))}

    def assign(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Topic of each vector: that of the nearest centroid, or −1 if the vector is below its threshold.

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
        self._fits(vectors)
        centroids = self.centroids.T.astype(np.float64)
        for start in range(0, n, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            cosines = np.round(np.asarray(vectors[rows], np.float64) @ centroids, _DECIMALS)
            best = cosines.argmax(axis=1)
            cosine = cosines[np.arange(len(best)), best]
            near = cosine >= np.round(self.thresholds.astype(np.float64)[best], _DECIMALS)
            topics[rows] = np.where(near, best, OUTLIER)
            probabilities[rows] = np.where(near, np.clip(cosine, 0, 1), 0)
        return topics, probabilities

    def distribution(self, vectors: np.ndarray) -> np.ndarray:
        """How much each vector is of each topic: the softmax of its cosines with the centroids, at `temperature`.

        An outlier has a distribution too: it is flatter, because no cosine stands out. The largest share is that of the
        topic that `assign` gives, unless the vector is an outlier or two cosines are equal to six decimals.

        Args:
            vectors: Unit vectors of the encoder it was fitted with, shape (n, size).

        Returns:
            float32 of shape (n, topics); rows sum to 1. Shape (n, 0) if there are no topics.

        Raises:
            MogError: the vectors have another size.
        """
        if not len(self.centroids):
            return np.zeros((len(vectors), 0), np.float32)
        self._fits(vectors)
        shares = np.asarray(vectors, np.float32) @ self.centroids.T
        shares /= np.float32(self.temperature)
        shares -= shares.max(axis=1, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    @property
    def temperature(self) -> float:
        """By which cosines are divided in `distribution`: the most likely one for the chunks it was fitted on."""
        return float(self.facts["temperature"])

    def _fits(self, vectors: np.ndarray) -> None:
        size, wanted = np.shape(vectors)[1], self.centroids.shape[1]
        if size != wanted:
            raise MogError(f"topics/model: expected vectors of size {wanted}, got size {size}: run `mog run`")


def agreement(model: TopicModel, question_vectors: np.ndarray, piece_vectors: np.ndarray) -> np.ndarray:
    """How far pieces are of the same topics as questions: the products of their distributions over topics.

    Args:
        model: The topic model.
        question_vectors: Unit vectors, shape (questions, size).
        piece_vectors: Unit vectors, shape (pieces, size).

    Returns:
        float32 of shape (questions, pieces) in [0, 1]: the chance that a topic drawn for the question and one drawn for
        the piece are the same. 0 if there are no topics.

    Raises:
        MogError: the vectors have another size than those that the model was fitted on.
    """
    return model.distribution(question_vectors) @ model.distribution(piece_vectors).T


def distinct(labels: Sequence[str], words: Sequence[Sequence[str]]) -> list[str]:
    """Labels that differ from each other: equal ones get a term of their topic that the others lack, or a number.

    Args:
        labels: Of the topics, in order; an empty one becomes `topic` with its number.
        words: Terms of each topic.
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
    """A hash of every row of float16 vectors, uint64 of shape (n,): identifies chunks, and selects samples of them."""
    rows = np.ascontiguousarray(vectors)
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), np.uint64)


def share_unseen(model: TopicModel, hashes: Sequence[np.ndarray]) -> float:
    """Share of chunks, given as `vector_hashes` per bucket, that were in no corpus when the model was fitted."""
    every = np.concatenate([np.zeros(0, np.uint64), *hashes])
    return float((~np.isin(every, model.seen)).mean()) if len(every) else 0.0


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
    hashes = [vector_hashes(bucket.held.open()) for bucket in paths]
    seen = np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]))
    vectors, texts, titles = _sample(paths, hashes, level, seen[: options.sample])
    topics = _cluster(vectors, texts, options, seed)
    number = int(topics.max(initial=OUTLIER)) + 1
    centroids, thresholds = _centroids(vectors, topics, number, options.outlier_quantile)
    facts = {
        **made_with(level, options, seed, encoder, made_by),
        "words": topic_terms(texts, topics, number),
        "titles": _nearest_titles(vectors, topics, centroids, titles),
        "size": np.bincount(topics[topics >= 0], minlength=number).tolist(),
        "sample": len(topics),
        "outliers": int((topics == OUTLIER).sum()),
        "temperature": _temperature(vectors, topics, centroids),
    }
    model = TopicModel(centroids, thresholds, seen, facts)
    facts["agreeing"] = int((model.assign(vectors)[0] == topics).sum())
    Path(out).write_bytes(encoded(model))


def may_have_topics(buckets: Sequence[Bucket], settings: TopicSettings) -> bool:
    """Whether there are enough chunks for HDBSCAN: it needs two clusters of the smallest size to find any."""
    return sum(bucket.held.count for bucket in buckets) >= 2 * settings.min_topic_size


def made_with(level: int, settings: TopicSettings, seed: int, encoder: str, made_by: str) -> dict[str, Any]:
    """The part of a model's facts that changes the model of the same chunks."""
    # Neither the rule for fitting again nor names change the result.
    return {
        "level": level,
        "settings": settings.model_dump(exclude={"refit_share", "names"}),
        "seed": seed,
        "encoder": encoder,
        "made_by": made_by,
        "form": _FORM,
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
) -> tuple[np.ndarray, list[str], list[str]]:
    """Vectors, texts and documents' titles of the chunks with these hashes (sorted), one each, in their order."""
    vectors: dict[int, np.ndarray] = {}
    texts: dict[int, tuple[str, str]] = {}
    for bucket, hashes_of in zip(buckets, hashes, strict=True):
        rows = np.flatnonzero(np.isin(hashes_of, wanted))
        if not len(rows):
            continue
        layout = bucket_layout(Path(bucket.documents), Path(bucket.spans))
        own_level = bucket.level or level
        held, of_bucket = bucket.held.open(), bucket_texts(Path(bucket.documents), layout, own_level)
        titles = pq.read_table(bucket.documents, columns=["title"])["title"].to_pylist()
        document = np.repeat(np.arange(len(titles)), np.diff(layout.level_offsets(own_level)))
        for row in rows:
            # Chunks with equal vectors may have different texts; which of them is used must not depend on order.
            identity = int(hashes_of[row])
            vectors[identity] = held[row]
            entry = (of_bucket[row], titles[document[row]])
            texts[identity] = min(entry, texts.get(identity, entry))
    order = [int(identity) for identity in wanted]
    size = buckets[0].held.open().shape[1]
    stacked = np.stack([vectors[i] for i in order]) if order else np.zeros((0, size))
    return stacked.astype(np.float32), [texts[i][0] for i in order], [texts[i][1] for i in order]


def _cluster(vectors: np.ndarray, texts: Sequence[str], settings: TopicSettings, seed: int) -> np.ndarray:
    """HDBSCAN's topic of every vector, the largest topic first."""
    # HDBSCAN needs two clusters of the smallest size to find any.
    if len(vectors) < 2 * settings.min_topic_size:
        return np.full(len(vectors), OUTLIER)
    # BERTopic imports them for what is not used here, which takes longer than most fits.
    with hidden("langchain_core", "openai", "sentence_transformers", "torch", "transformers"):
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
    neighbours = min(_NEIGHBOURS, len(vectors) - 1)
    search = NearestNeighbors(n_neighbors=neighbours, metric="cosine", algorithm="brute").fit(vectors)
    distances, rows = search.kneighbors(vectors)
    model = BERTopic(
        # Not English, which removes all characters outside its alphabet.
        language="multilingual",
        umap_model=UMAP(
            n_neighbors=neighbours,
            n_components=min(_COMPONENTS, len(vectors) - 2),
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


def _nearest_titles(
    vectors: np.ndarray, topics: np.ndarray, centroids: np.ndarray, titles: Sequence[str]
) -> list[list[str]]:
    """Of every topic, different titles of the documents whose chunks are nearest to its centroid."""
    samples = []
    for topic, centroid in enumerate(centroids):
        rows = np.flatnonzero(topics == topic)
        near = rows[np.argsort(-np.round(vectors[rows].astype(np.float64) @ centroid, _DECIMALS), kind="stable")]
        shown = (" ".join(titles[row].split())[:_TITLE_CHARS] for row in near.tolist())
        samples.append(list(dict.fromkeys(title for title in shown if title))[:_TITLES])
    return samples


def _centroids(vectors: np.ndarray, topics: np.ndarray, number: int, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """Unit mean vector of every topic, and the least cosine with it of a vector of the topic.

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
            thresholds[topic] = min(thresholds[topic], np.quantile(cosines[~of_topic], _FAR))
    return centroids, thresholds


def _temperature(vectors: np.ndarray, topics: np.ndarray, centroids: np.ndarray) -> float:
    """The temperature at which the softmax of cosines makes the topics of a sample most likely.

    The likelihood is concave in the inverse of the temperature, so its slope has one root; where every vector is
    nearest to the centroid of its topic there is none, and the least temperature is best.
    """
    rows = topics >= 0
    cosines = vectors[rows].astype(np.float64) @ centroids.T.astype(np.float64)
    least, most = 1 / _TEMPERATURES[1], 1 / _TEMPERATURES[0]
    if not cosines.size:
        return _TEMPERATURES[1]
    similarity = float(cosines[np.arange(len(cosines)), topics[rows]].mean())
    largest = cosines.max(axis=1, keepdims=True)
    for _ in range(_HALVINGS):
        inverse = float(np.sqrt(least * most))
        shares = np.exp(inverse * (cosines - largest))
        expected = (shares * cosines).sum(axis=1) / shares.sum(axis=1)
        if similarity >= expected.mean():
            least = inverse
        else:
            most = inverse
    return round(float(1 / np.sqrt(least * most)), 4)


def encoded(model: TopicModel) -> bytes:
    """A model as a safetensors file."""
    arrays = {"centroids": model.centroids, "thresholds": model.thresholds, "seen": model.seen}
    return encode(arrays, model.facts)


def open_model(stored: Artefact, encoder: str | None = None) -> TopicModel:
    """The topic model that is stored.

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
    """The model in the bytes of a file.

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
    """Whether a stored model can be used."""
    try:
        open_model(stored)
    except MogError:
        return False
    return True
