"""What the command line asks of a materialised home: passages, answers, and whether all is as manifests say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.answering.ask import answer
from mog_assets.answering.notation import combination, combinations
from mog_assets.answering.retrieve import texts
from mog_assets.answering.roles import Asked
from mog_assets.answering.rows import AnswerRow
from mog_assets.config import Settings
from mog_assets.questions.sets import Question
from mog_assets.retrieval.methods import Method, parse
from mog_assets.routing.families import families
from mog_assets.routing.retrieve import Retrieval
from mog_assets.tools import Tools
from resources.errors import ConfigError


@dataclass(frozen=True)
class Found:
    """What stands behind an answer, or is one.

    Attributes:
        passages: In rank order: corpus, doc, start, end, level (or hops), score and text; one that is put together from
            several spans begins with the first, and has all of them as `spans`: (corpus, doc, start, end).
        weights: Of the granularities by name, where a router weighed them.
        topic: Number, label and probability of the question's topic, and whether passages of all topics were taken in
            its place; None where no topic was asked for.
    """

    passages: list[dict[str, Any]]
    weights: dict[str, float] | None
    topic: dict[str, Any] | None


def find(settings: Settings, question: str, method_name: str, k: int, names: Sequence[str]) -> Found:
    """The k best passages for a question.

    Raises:
        ConfigError: no such method, or one that is of use in an evaluation only.
        MissingArtefact: something it needs has not been materialised.
        MogError: the router is damaged, or belongs to another encoder or other levels.
    """
    method = parse(method_name, settings)
    if method.evaluation_only:
        raise ConfigError(
            f"--method: expected a method that searches for questions without gold evidence, got {method.name!r}"
        )
    tools = Tools(settings)
    retrieval = Retrieval.open(tools, tools.store.read, names, [question])
    found = retrieval.rank(method, k)
    found = found.at(found.rank < k)
    (passages,) = texts(retrieval.corpora, found, 1)
    _, first = np.unique(found.rank, return_index=True)
    return Found(
        [
            {
                "corpus": passage.corpus,
                "doc": passage.doc,
                "start": int(found.start[row]),
                "end": int(found.end[row]),
                "level": int(found.level[row]),
                "score": float(found.score[row]),
                "text": passage.text,
                **({"spans": [list(span) for span in passage.spans]} if len(passage.spans) > 1 else {}),
            }
            for passage, row in zip(passages, first, strict=True)
        ],
        _weights(retrieval, method),
        _topic(retrieval, method, k),
    )


def _weights(retrieval: Retrieval, method: Method) -> dict[str, float] | None:
    if not method.routed:
        return None
    (family,) = (family for family in families(retrieval.corpora.settings) if family.kind == method.kind)
    outputs = retrieval.weights(method.kind)[0]
    return {name: float(weight) for name, weight in zip(family.names, outputs, strict=True)}


def _topic(retrieval: Retrieval, method: Method, k: int) -> dict[str, Any] | None:
    if not method.topics:
        return None
    (topic,), (probability,) = retrieval.topics
    return {
        "topic": int(topic),
        "label": retrieval.topic_model.labels[int(topic)],
        "probability": float(probability),
        "all topics": bool(retrieval.fell_back(method, k)[0]),
    }


@dataclass(frozen=True)
class Told:
    """An answer with all that it rests on.

    Attributes:
        row: The answer, its grades, rounds and cost.
        method: Canonical name of the way of answering.
        passages: Those it rests on: corpus, doc, title, spans and text.
        weights: As `Found.weights`, for the question as it was asked.
    """

    row: AnswerRow
    method: str
    passages: list[dict[str, Any]]
    weights: dict[str, float] | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.row.to_json(), "method": self.method, "passages": self.passages, "weights": self.weights}


def ask(
    settings: Settings, question: str, method_name: str | None, options: Mapping[str, str], names: Sequence[str]
) -> Told:
    """Answer a question.

    Args:
        settings: Who answers, and from what.
        question: The question.
        method_name: A way of answering; that of the settings named first that retrieves, where none is named.
        options: Text by letter; empty for an open question.
        names: The corpora.

    Raises:
        ConfigError: no such method.
        MissingArtefact: something it needs has not been materialised.
        MogError: no reader can be reached, or an option is named otherwise than by letters and digits.
    """
    hows = combinations(settings)
    how = (
        combination(method_name, settings)
        if method_name
        else next((how for how in hows if how.retrieval), combination("one-step", settings))
    )
    tools = Tools(settings)
    asked = Asked.of(Question("question", question, "open", "test", options=dict(options)))
    retrieval = Retrieval.open(tools, tools.store.read, names, keep=True)
    (row,) = answer(tools, retrieval, how, [asked])
    weights = None
    # A question that the classifier answers without retrieval was weighed by no router.
    if how.retrieval is not None and how.retrieval.routed and row.passages:
        weights = _weights(retrieval.again([question]), how.retrieval)
    return Told(row, how.name, row.passages, weights)
