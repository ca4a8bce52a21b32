"""Topics of questions, and the suffix `+topics` of methods, which limits each question to chunks of its topic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mog_assets.build.demand import Needs
from mog_assets.index.corpora import Corpora
from mog_assets.papers.topics.assign import read_topics
from mog_assets.papers.topics.model import OUTLIER, TopicModel, open_model
from mog_assets.resources.lazy import remembered
from mog_assets.search.groups import Groups, Limit
from mog_assets.search.index import Index
from mog_assets.search.methods import LIMITS
from mog_assets.search.retrieval import Retrieval


@dataclass(frozen=True)
class QuestionTopics:
    """Topics of some questions.

    Attributes:
        corpora: Those that are searched.
        model: The topic model.
        vectors: Of the questions, shape (questions, size).
    """

    corpora: Corpora
    model: TopicModel
    vectors: np.ndarray

    @cached_property
    def assigned(self) -> tuple[np.ndarray, np.ndarray]:
        """Topic of every question (−1: none) and its probability."""
        return self.model.assign(self.vectors)

    @property
    def none(self) -> np.ndarray:
        """Questions without a topic, bool of shape (questions,)."""
        return np.asarray(self.assigned[0] == OUTLIER)

    def chunks(self, level: int) -> list[np.ndarray]:
        """Return topic of every chunk of a level, per corpus."""
        return [read_topics(self.corpora.read("topics/assigned", name), level) for name in self.corpora.names]


@remembered
def topics_of(retrieval: Retrieval) -> QuestionTopics:
    """Return the topics of the questions of a retrieval."""
    return QuestionTopics(retrieval.corpora, _model(retrieval.index), retrieval.vectors)


@remembered
def _model(index: Index) -> TopicModel:
    return open_model(index.corpora.read("topics/model", None), index.fingerprint())


def _groups(retrieval: Retrieval) -> Groups:
    topics = topics_of(retrieval)
    return Groups(topics.assigned[0], topics.chunks)


def _described(retrieval: Retrieval) -> list[dict[str, Any]]:
    topics = topics_of(retrieval)
    labels = topics.model.labels
    return [
        {"topic": int(topic), "label": labels[int(topic)], "probability": float(p)}
        for topic, p in zip(*topics.assigned, strict=True)
    ]


LIMITS.register("topics", Limit("topic", _groups, _described, Needs(("topics/assigned",), ("topics/model",))))
