"""Passages for questions by any method: levels or hops, fixed or weighted by a router, within topics or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from mog_assets.arrays import pairs
from mog_assets.chunking.chunks import Layout
from mog_assets.config import RetrieverName, Settings
from mog_assets.graph.search import Neighbourhoods
from mog_assets.retrieval.corpora import Corpora, Encode, Read, Vectors
from mog_assets.retrieval.methods import LevelChunks, Method, Passages, Ranker
from mog_assets.retrieval.search import Bm25Searcher, DenseSearcher, HybridSearcher, Remembering, Searcher
from mog_assets.retrieval.tokens import query_terms
from mog_assets.routing import router
from mog_assets.tools import Tools
from mog_assets.topics.assign import labels_of, read_topics
from mog_assets.topics.model import OUTLIER, TopicModel, open_model

# From so many questions on, dense search is exact.
MANY = 8
# Key of the router of each kind of method.
ROUTERS = {"mog-paper": "router_paper", "mogg-paper": "hop_router_paper"}


@dataclass(frozen=True)
class Needs:
    """Keys of the assets that methods read: partitioned ones and unpartitioned ones."""

    per_corpus: tuple[str, ...]
    shared: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return (*self.per_corpus, *self.shared)


def needs(methods: Sequence[Method], settings: Settings) -> Needs:
    """The assets that some methods need for ranking."""
    if not methods:
        return Needs((), ())
    retrievers = {m.retriever for m in methods if not m.graph}
    per_corpus, shared = ["documents", "chunks/level_1", "tokens"], []
    if retrievers & {"bm25", "hybrid"}:
        per_corpus += [f"bm25/level_{level}" for level in settings.level_range]
        shared.append("statistics")
    if retrievers & {"dense", "hybrid"}:
        of_level = ("collections", "embeddings")
        per_corpus += [f"{kind}/level_{level}" for level in settings.level_range for kind in of_level]
    if any(m.graph for m in methods):
        per_corpus.append("sentence_graph")
        shared += graph_of_question_sets(settings)
    if any(m.topics for m in methods):
        per_corpus.append("topics/assigned")
        shared.append("topics/model")
    kinds = {m.kind for m in methods}
    shared += [key for kind, key in ROUTERS.items() if kind in kinds]
    if "oracle-paper" in kinds:
        shared.append("soft_labels")
    return Needs(tuple(per_corpus), tuple(shared))


def graph_of_question_sets(settings: Settings) -> list[str]:
    """The keys of what the graph needs for all corpora: the graph of a question set, or else held statistics."""
    return ["question_set_graph" if settings.graph.across == "question_set" else "hop_statistics"]


@dataclass(frozen=True)
class Retrieval:
    """Questions, with the data shared by all retrieval methods, each computed once.

    Args:
        corpora: The corpora of the question set.
        queries: The questions, without their options.
        encode: Texts to vectors; called only if vectors are needed.
        encoder: Gives the fingerprint of the encoder; called only if vectors are needed.
        is_token: Which words the encoder has as one token, see `mog_assets.resources.encoder.Encoder.is_token`.
        vector_store: Holds the collections; without one, all vectors are compared.
        opened: Data that does not depend on the questions: the graph, the topic model.
        allowed: Documents that passages may be of, bool of shape (documents,); None if all.
    """

    corpora: Corpora
    queries: Sequence[str]
    encode: Encode
    encoder: Callable[[], str]
    is_token: Callable[[Sequence[str]], np.ndarray]
    vector_store: Vectors | None
    opened: dict[str, Any] = field(default_factory=dict, repr=False)
    allowed: np.ndarray | None = None
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls, tools: Tools, read: Read, corpora: Sequence[str], queries: Sequence[str] = (), keep: bool = False
    ) -> Self:
        """Open the artefacts of the graph for retrieval; used by the command, by assets and by experiments.

        Args:
            tools: The resources.
            read: Reads an asset of a corpus, or one of all corpora, from the store.
            corpora: Names of the corpora that are searched together.
            queries: The questions; `again` replaces them.
            keep: Leave indexes open, for a few questions at a time.

        Raises:
            MissingArtefact: a corpus has not been materialised.
        """
        opened = Corpora.open(read, tools.settings, corpora, keep)
        encoder = tools.encoder
        return cls(opened, queries, encoder.encode, lambda: encoder.fingerprint, encoder.is_token, tools.qdrant)

    def again(self, queries: Sequence[str]) -> Self:
        """The same for other questions."""
        return replace(self, queries=queries, _known={})

    def among(self, allowed: np.ndarray | None) -> Self:
        """The same with passages of some documents only; see `allowed`."""
        return replace(self, allowed=allowed, _known={})

    @cached_property
    def vectors(self) -> np.ndarray:
        """Vectors of the questions, shape (questions, size)."""
        return self.encode(self.queries)

    @cached_property
    def terms(self) -> list[list[str]]:
        """Terms of the questions."""
        return query_terms(self.queries)

    @property
    def neighbourhoods(self) -> Neighbourhoods:
        """The sentence graphs of the corpora."""
        if "graph" not in self.opened:
            self.opened["graph"] = Neighbourhoods.open(self.corpora)
        found: Neighbourhoods = self.opened["graph"]
        return found

    @property
    def topic_model(self) -> TopicModel:
        """The topic model."""
        if "topics" not in self.opened:
            self.opened["topics"] = open_model(self.corpora.read("topics/model", None), self.encoder())
        found: TopicModel = self.opened["topics"]
        return found

    @property
    def topic_labels(self) -> dict[int, str]:
        """The labels that chunks have; those of the model if it has been fitted since."""
        model, own = self.topic_model, labels_of(self.corpora.read("topics/assigned", self.corpora.names[0]))
        known = own is not None and len(own) == len(model.centroids)
        return replace(model, names=tuple(own)).labels if own is not None and known else model.labels

    @cached_property
    def topics(self) -> tuple[np.ndarray, np.ndarray]:
        """Topic of every question (−1: none) and its probability."""
        return self.topic_model.assign(self.vectors)

    def weights(self, kind: str) -> np.ndarray:
        """Router weights of every question: float array of shape (questions, granularities).

        Args:
            kind: `mog-paper` or `mogg-paper`.

        Raises:
            MogError: the router is damaged, or belongs to another encoder or other granularities.
        """
        if kind not in self._known:
            settings = self.corpora.settings
            count = settings.levels if kind == "mog-paper" else settings.graph.hops + 1
            opened = router.open_router(self.corpora.read(ROUTERS[kind], None), self.encoder(), count)
            self._known[kind] = router.predict(opened.weights, self.vectors)
        found: np.ndarray = self._known[kind]
        return found

    def rank(self, method: Method, k: int, weights: np.ndarray | None = None) -> Passages:
        """The passages of every question.

        With topics, an outlier or a question with fewer than k passages of its topic gets passages of all topics.

        Args:
            method: Any method except a control; all except `oracle-paper` compute their own weights.
            k: Number of passages.
            weights: float array of shape (questions, granularities) to use instead.
        """
        if weights is None and method.routed:
            weights = self.weights(method.kind)
        found = self.ranker(method.retriever, method.graph).rank(method, weights)
        if method.topics:
            of_topic = self._of_topic(method, weights)
            kept = ~self._too_few(of_topic, k)
            found = _stacked(of_topic.at(kept[of_topic.question]), found.at(~kept[found.question]))
        if self.allowed is not None:
            # Neighbours of a sentence may be of any document.
            found = found.at(self.allowed[found.document])
        return found

    def fell_back(self, method: Method, k: int, weights: np.ndarray | None = None) -> np.ndarray:
        """Questions for which `rank` returns passages of all topics, bool of shape (questions,)."""
        if weights is None and method.routed:
            weights = self.weights(method.kind)
        return self._too_few(self._of_topic(method, weights), k)

    def _of_topic(self, method: Method, weights: np.ndarray | None) -> Passages:
        return self.ranker(method.retriever, method.graph, topics=True).rank(method, weights)

    def _too_few(self, of_topic: Passages, k: int) -> np.ndarray:
        passages = np.zeros(len(self.queries), np.int64)
        np.maximum.at(passages, of_topic.question, of_topic.rank + 1)
        return (self.topics[0] == OUTLIER) | (passages < k)

    def ranker(self, retriever: RetrieverName | None, graph: bool = False, topics: bool = False) -> Ranker:
        """The ranker of a retriever over levels, or of BM25 over the sentence graph.

        Raises:
            ValueError: the method is a control, which has no retriever; `retrieval.controls` gives its passages.
        """
        if retriever is None:
            raise ValueError("retriever: expected one of bm25, dense, hybrid, got None: controls do not search")
        key = (retriever, graph, topics)
        if key not in self._known:
            chunks = (
                self.neighbourhoods
                if graph
                else LevelChunks(self.corpora.layout, self.corpora.settings.levels, self.corpora.starts)
            )
            searcher = self._graph_searcher(topics) if graph else self._searcher(retriever, topics)
            self._known[key] = Ranker(searcher, chunks, self.corpora.settings.k_r)
        found: Ranker = self._known[key]
        return found

    def _searcher(self, retriever: RetrieverName, topics: bool) -> Searcher:
        key = (retriever, topics)
        if key not in self._known:
            corpora, wanted = self.corpora, self._groups(topics)
            made: Searcher
            if retriever == "bm25":
                made = Bm25Searcher(
                    self.terms, corpora.bm25, corpora.starts, wanted, lambda level: self._chunk_groups(level, topics)
                )
            elif retriever == "dense":
                # Few questions use the index; for many, one product with all vectors is faster, and exact.
                if self.vector_store is None or self.allowed is not None:
                    made = DenseSearcher(self.vectors, partial(self._exactly, wanted, topics), corpora.starts)
                elif wanted is None and len(self.queries) >= MANY:
                    made = DenseSearcher(self.vectors, corpora.exactly_nearest, corpora.starts)
                else:
                    find = partial(corpora.nearest, self.vector_store, topics=wanted)
                    made = DenseSearcher(self.vectors, find, corpora.starts)
            else:
                made = HybridSearcher([self._searcher("bm25", topics), self._searcher("dense", topics)])
            self._known[key] = Remembering(made)
        found: Searcher = self._known[key]
        return found

    def _exactly(
        self, wanted: np.ndarray | None, topics: bool, vectors: np.ndarray, level: int, k: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        if wanted is None:
            return self.corpora.exactly_nearest(vectors, level, k)
        return self.corpora.exactly_nearest(vectors, level, k, wanted, self._chunk_groups(level, topics))

    def _graph_searcher(self, topics: bool) -> Searcher:
        around = self.neighbourhoods
        distinct = sorted({term for query in self.terms for term in query})
        return Remembering(
            Bm25Searcher(
                self.terms,
                lambda hop: around.bm25(hop, distinct),
                around.starts,
                self._groups(topics),
                lambda _: self._only(around.layouts, 1, self._node_topics if topics else None),
            )
        )

    def topics_of(self, granularity: int, graph: bool = False) -> np.ndarray:
        """Topic of every chunk of a level, or of every neighbourhood: that of its centre."""
        return np.concatenate(self._node_topics if graph else self._chunk_topics(granularity))

    def _groups(self, topics: bool) -> np.ndarray | None:
        """The group of chunks that each question may find: those of its topic, or 0; None if all chunks."""
        if topics:
            return self.topics[0]
        return None if self.allowed is None else np.zeros(len(self.queries), np.int64)

    def _chunk_groups(self, level: int, topics: bool) -> list[np.ndarray]:
        """The group of every chunk of a level, per corpus; none is asked for below 0."""
        return self._only(self.corpora.layouts, level, self._chunk_topics(level) if topics else None)

    def _only(self, layouts: Sequence[Layout], level: int, groups: Sequence[np.ndarray] | None) -> list[np.ndarray]:
        """Groups of chunks per corpus, −1 for those of documents that are not allowed; 0 without groups."""
        found, first = [], 0
        for number, layout in enumerate(layouts):
            own = np.zeros(layout.count(level), np.int64) if groups is None else groups[number]
            if self.allowed is not None:
                pieces, _ = layout.covered(np.arange(layout.count(level)), level)
                documents = first + layout.document_of[pieces]
                own = np.where(self.allowed[documents], own, -1)
            first += len(layout.documents)
            found.append(own)
        return found

    def _chunk_topics(self, level: int) -> list[np.ndarray]:
        return [read_topics(self.corpora.read("topics/assigned", name), level) for name in self.corpora.names]

    @cached_property
    def _node_topics(self) -> list[np.ndarray]:
        """Topics of the level-1 chunks in which nodes begin, per corpus; they also apply to the neighbourhoods."""
        found = []
        for chunks, nodes, topics in zip(
            self.corpora.layouts, self.neighbourhoods.layouts, self._chunk_topics(1), strict=True
        ):
            # The spans of a document are in ascending order.
            starts, begin = (pairs(layout.document_of, layout.spans[:, 0]) for layout in (chunks, nodes))
            found.append(topics[np.searchsorted(starts, begin, side="right") - 1])
        return found


def _stacked(first: Passages, second: Passages) -> Passages:
    """Passages of different questions combined, ordered by question."""
    order = np.argsort(np.concatenate([first.question, second.question]), kind="stable")
    columns = vars(first).keys()
    return Passages(*(np.concatenate([getattr(first, name), getattr(second, name)])[order] for name in columns))
