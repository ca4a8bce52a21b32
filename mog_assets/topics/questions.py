"""Topics of questions, and of the chunks that they may be limited to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mog_assets.retrieval.corpora import Corpora
from mog_assets.topics.assign import read_topics
from mog_assets.topics.model import OUTLIER, TopicModel


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
        """Topic of every chunk of a level, per corpus."""
        return [read_topics(self.corpora.read("topics/assigned", name), level) for name in self.corpora.names]
