"""Search and answer questions in a materialised home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mog_assets.answering.ask import answer
from mog_assets.answering.notation import check_combination, combination, combinations
from mog_assets.answering.retrieve import texts
from mog_assets.answering.roles import Asked
from mog_assets.answering.rows import AnswerRow
from mog_assets.config import Settings
from mog_assets.questions.sets import Question
from mog_assets.ranking.retrieve import Retrieval
from mog_assets.retrieval.methods import AUTO, RANKINGS, Method, check_trained, parse
from mog_assets.routing.families import families
from mog_assets.tools import Tools
from resources.errors import ConfigError


@dataclass(frozen=True)
class SearchResult:
    """The passages for a question.

    Attributes:
        method: Canonical name of the method that ranked them.
        because: Why this method was chosen, if the method was `auto`; else empty.
        nothing: Why there is no passage; empty if there is one.
        passages: In rank order: corpus, doc, title, start, end, level (or hops), score, text, and `why` it is there if
            asked. A passage of several spans has the first in these fields and all of them as `spans`: (corpus, doc,
            start, end).
        weights: Weight of each granularity by name, if a router weighted them.
        topic: Number, label and probability of the question's topic, and whether passages of all topics were used
            instead; None if the method does not use topics.
    """

    method: str
    because: str
    passages: list[dict[str, Any]]
    nothing: str
    weights: dict[str, float] | None
    topic: dict[str, Any] | None


def find(
    settings: Settings,
    question: str,
    method_name: str,
    names: Sequence[str],
    k: int | None = None,
    budget: int | None = None,
    explain: bool = False,
) -> SearchResult:
    """The best passages for a question.

    Args:
        settings: The settings of the project.
        question: The question.
        method_name: A method, or `auto`.
        names: The corpora.
        k: Most passages.
        budget: Most characters; those of the settings if neither is given.
        explain: Say why each passage is there.

    Raises:
        ConfigError: the method does not exist, works only in an evaluation, or cannot explain.
        MissingArtefact: something it needs has not been materialised.
        MogError: a model is damaged, or belongs to another encoder or other levels.
    """
    tools, because = Tools(settings), ""
    method = parse(method_name, settings)
    if method.evaluation_only:
        raise ConfigError(
            f"--method: expected a method that searches for questions without gold evidence, got {method.name!r}"
        )
    check_trained("--method", method, settings)
    retrieval = Retrieval.open(tools, tools.store.read, names, [question])
    # What people ask is not stored.
    retrieval = replace(retrieval, encode=partial(tools.encoder.encode, keep=False))
    if method.kind == AUTO:
        method, because = retrieval.chosen
    # What `auto` stands for was not asked for.
    if explain and not method.ranking and not because:
        raise ConfigError(
            f"--explain: expected a ranking ({', '.join(RANKINGS)}), got {method.name!r}, which orders by one score"
        )
    limit = settings.budget if k is None and budget is None else budget
    found = retrieval.passages(method, k, limit)
    (passages,) = texts(retrieval.corpora, found, 1)
    _, first = np.unique(found.rank, return_index=True)
    why = retrieval.reasons(method, found) if explain else []
    weights = _weights(retrieval, method)
    return SearchResult(
        method.name,
        because,
        [
            {
                "corpus": passage.corpus,
                "doc": passage.doc,
                "title": passage.title,
                "start": int(found.start[row]),
                "end": int(found.end[row]),
                "level": int(found.level[row]),
                "score": float(found.score[row]),
                "text": passage.text,
                **({"spans": [list(span) for span in passage.spans]} if len(passage.spans) > 1 else {}),
                **({"why": why[row]} if explain else {}),
            }
            for passage, row in zip(passages, first, strict=True)
        ],
        "" if passages else _nothing(method, weights),
        weights,
        _topic(retrieval, method, k or settings.k),
    )


def _nothing(method: Method, weights: dict[str, float] | None) -> str:
    """The reason why a method found no passage."""
    if weights is not None and not any(weights.values()):
        return f"No passage: the router gives every {'hop' if method.graph else 'level'} weight 0."
    if method.retriever == "bm25":
        return "No passage has a word in common with the question."
    return "No passage: there are no vectors to compare the question with."


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
class AnswerResult:
    """An answer with its passages, weights and parameters.

    Attributes:
        row: The answer, its grades, rounds and cost.
        method: Canonical name of the answering method.
        passages: The passages it is based on: corpus, doc, title, spans and text.
        weights: As `SearchResult.weights`, for the original question.
        parameters: Parameters sent to the language model with the messages; None if no language model was used.
        auto: What `auto` stood for; None if the method names its retrieval.
    """

    row: AnswerRow
    method: str
    passages: list[dict[str, Any]]
    weights: dict[str, float] | None
    parameters: str | None
    auto: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        own = {name: getattr(self, name) for name in ("method", "passages", "weights", "parameters", "auto")}
        return {**self.row.to_json(), **own}


def ask(
    settings: Settings, question: str, method_name: str | None, options: Mapping[str, str], names: Sequence[str]
) -> AnswerResult:
    """Answer a question.

    Args:
        settings: The settings of the project.
        question: The question.
        method_name: An answering method; by default the first one in the settings that retrieves.
        options: Text by letter; empty for an open question.
        names: The corpora.

    Raises:
        ConfigError: no such method.
        MissingArtefact: something it needs has not been materialised.
        MogError: no reader can be reached, or the name of an option has characters other than letters and digits.
    """
    if method_name:
        how = combination(method_name, settings)
        check_combination("--method", how, settings)
    else:
        hows = combinations(settings)
        how = next((how for how in hows if how.retrieval), combination("one-step", settings))
    tools = Tools(settings)
    asked = Asked.of(Question("question", question, "open", "test", options=dict(options)))
    retrieval = Retrieval.open(tools, tools.store.read, names, keep=True)
    (row,) = answer(tools, retrieval, how, [asked])
    weights = None
    # The router gave no weights if the classifier chose to answer without retrieval.
    if how.retrieval is not None and how.retrieval.routed and row.passages:
        weights = _weights(retrieval.again([question]), how.retrieval)
    parameters = tools.llm.parameters.told() if settings.answering.reader == "openai" else None
    auto = retrieval.chosen[0].name if how.retrieval is not None and how.retrieval.kind == AUTO else None
    return AnswerResult(row, how.name, row.passages, weights, parameters, auto)
