"""Rerankers: experts that read a question together with the texts of its best pieces, such as cross-encoders.

Such an expert is weighed like every other: by trained rankings as they learn, by `reranked` as its `weight` says. Only
these ask it; `auto` is one of them where the project's questions show that it is significantly better. The one of the
section `reranker` is called `reranker`; other packages register theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.index.corpora import Corpora
from mog_assets.plugins.models.reranker import Reranker as Model
from mog_assets.plugins.models.reranker_settings import EXPERT, RERANKER, RerankRequest
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.search.candidates import Candidates
from mog_assets.search.experts import EXPERTS, Cost, FurtherExpert
from mog_assets.search.index import Index, Query
from mog_assets.search.relations import best

# Given a question and texts, a score of each: 0 or more, more is better.
Scores = Callable[[str, Sequence[str]], np.ndarray]
# Pieces of a question that are read.
PIECES = 20
# In `reranked`, beside 1 for BM25 and 2 for vectors.
WEIGHT = 2.0


@dataclass(frozen=True)
class RerankRelation:
    """Scores the best pieces of a question by their texts; see `relations.Relation`.

    Attributes:
        name: Of the expert.
        corpora: Those that are searched.
        read: Scores texts, for each question.
        pieces: How many are read; all others score 0.
    """

    name: str
    corpora: Corpora
    read: Callable[[Sequence[RerankRequest]], Sequence[np.ndarray]]
    pieces: int

    def scores(self, candidates: Candidates, value: np.ndarray, queries: Sequence[Query]) -> np.ndarray:
        """See `relations.Relation.scores`; a text is the title of the document and the piece.

        Raises:
            MogError: the reranker does not give a number of 0 or more for each text.
        """
        top, layout = best(candidates, value, self.pieces), self.corpora.layout
        documents, spans = layout.document_of[candidates.piece[top]], layout.spans[candidates.piece[top]]
        texts = self.corpora.texts(np.unique(documents).tolist())
        rows_of, readings = [], []
        for question in np.unique(candidates.question[top]).tolist():
            rows = np.flatnonzero(candidates.question[top] == question)
            passages = []
            for document, (start, end) in zip(documents[rows].tolist(), spans[rows].tolist(), strict=True):
                title, text = texts[document]
                passages.append(f"{title}\n{text[start:end]}" if title else text[start:end])
            rows_of.append(top[rows])
            readings.append(RerankRequest(queries[question].text, passages))
        scores = np.zeros(len(candidates.piece), np.float32)
        for rows, reading, answer in zip(rows_of, readings, self.read(readings), strict=True):
            given, count = np.asarray(answer, np.float32), len(reading.texts)
            if given.shape != (count,) or not np.isfinite(given).all() or (given < 0).any():
                raise MogError(
                    f"ranking.experts: expected {self.name!r} to give a number of 0 or more for each of {count} texts, "
                    f"got an array of shape {given.shape} from {given.min(initial=0)}: mend it, or leave it out"
                )
            scores[rows] = given
        return scores


def reranking(
    name: str, read: Scores, pieces: int = PIECES, weight: float = WEIGHT, reason: str = "", version: str = "1"
) -> FurtherExpert:
    """Return a reranker as an expert, to be registered under its name.

    Args:
        name: Of the expert.
        read: Scores texts for a question.
        pieces: How many of the best pieces of a question are read.
        weight: In `reranked`, beside 1 for BM25 and 2 for vectors.
        reason: What `--explain` says of a passage that it raised.
        version: Raised when it gives other scores for the same.
    """

    def each(readings: Sequence[RerankRequest]) -> list[np.ndarray]:
        return [read(reading.question, reading.texts) for reading in readings]

    return FurtherExpert(
        lambda index: RerankRelation(name, index.corpora, each, pieces),
        weight=weight,
        reason=reason,
        version=version,
        reads=True,
    )


def _configured(index: Index) -> RerankRelation:
    settings = RERANKER.of(index.settings)
    model = None if index.tools is None else index.tools.opened(_model)
    if settings is None or model is None:
        raise ConfigError("ranking.experts: expected the section `reranker`, which names its model, got none: add it")
    return RerankRelation(EXPERT, index.corpora, model.scores, settings.pieces)


def _model(tools: Tools) -> Model | None:
    """Return the reranker of the settings; scores are cached in the home folder."""
    chosen = RERANKER.of(tools.settings)
    return None if chosen is None else Model(chosen, tools.settings.home / "cache" / "reranker", tools.keep)


def _options(settings: Settings) -> Any:
    chosen = RERANKER.of(settings)
    return None if chosen is None else Model(chosen).identity


def _cost(settings: Settings) -> Cost:
    chosen = RERANKER.of(settings)
    if chosen is None:
        return Cost()
    price = chosen.endpoint.price if chosen.endpoint else 0.0
    paid = f", for {price:g} USD a million tokens" if price else ""
    return Cost(f"{chosen.pieces} pieces{paid}", chosen.model_dump(), Model(chosen).seconds)


EXPERTS.register(
    EXPERT,
    FurtherExpert(
        _configured,
        weight=WEIGHT,
        reason="read together with the question",
        options=_options,
        reads=True,
        cost=_cost,
    ),
)
