"""Passages by any method: `fused`, `mog`, `mix` and `auto` here, all others as `routing.retrieve` has them.

Everything that asks for passages goes through `Retrieval.open`: commands, assets and experiments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mog_assets import tensors
from mog_assets.arrays import places
from mog_assets.config import Settings
from mog_assets.ranking import models
from mog_assets.ranking.candidates import Candidates, find
from mog_assets.ranking.experts import Bm25Expert, DenseExpert, Expert, Products, TitleExpert, equal_weights
from mog_assets.ranking.explain import reasons
from mog_assets.ranking.gold import ordered
from mog_assets.ranking.models import Asked
from mog_assets.ranking.passages import fitting, joined
from mog_assets.retrieval.methods import AUTO, RANKINGS, RETRIEVERS, Method, Passages, parse
from mog_assets.routing import retrieve as routed
from mog_assets.routing.retrieve import Needs

# The file of the asset `method`.
CHOSEN = "method.json"
# Key of the model of each learned ranking.
MODELS = {"mog": "router", "mix": "mix"}


def expert_names(settings: Settings) -> list[str]:
    """Names of the experts, in the order of their scores."""
    levels = settings.level_range
    return [*(f"bm25-{level}" for level in levels), *(f"dense-{level}" for level in levels), "title"]


def finest(settings: Settings) -> list[int]:
    """Positions of the experts that score pieces themselves."""
    return [0, settings.levels]


def fused(found: Candidates, experts: Sequence[str]) -> np.ndarray:
    """Score of every candidate without training: the sum of what BM25 and vectors of all levels give it.

    Args:
        found: The candidates; what an expert gives them counts from 0 to 1.
        experts: Names of the experts.
    """
    return found.relative @ equal_weights(experts)


def needs(methods: Sequence[Method], settings: Settings) -> Needs:
    """The assets that some methods need for ranking."""
    if any(method.kind == AUTO for method in methods):
        # It may be any of these.
        names = [*RANKINGS, *(f"{retriever}:fixed-1" for retriever in RETRIEVERS)]
        possible = [m for m in (parse(name, settings) for name in names) if settings.trains_routers or not m.trained]
        found = needs([*possible, *(m for m in methods if m.kind != AUTO)], settings)
        return Needs(found.per_corpus, (*found.shared, "method"))
    others = routed.needs([method for method in methods if not method.ranking], settings)
    rankings = [method.kind for method in methods if method.ranking]
    if not rankings:
        return others
    indexes = [f"{kind}/level_{level}" for kind in ("bm25", "embeddings") for level in settings.level_range]
    per_corpus = dict.fromkeys(("documents", "chunks/level_1", "tokens", *indexes, *others.per_corpus))
    models_of = [MODELS[kind] for kind in dict.fromkeys(rankings) if kind in MODELS]
    return Needs(tuple(per_corpus), tuple(dict.fromkeys((*others.shared, "statistics", *models_of))))


@dataclass(frozen=True)
class Retrieval(routed.Retrieval):
    """Questions, with the data shared by all methods, each computed once."""

    @property
    def experts(self) -> list[Expert]:
        """The experts, for these questions."""
        corpora, layout = self.corpora, self.corpora.layout
        levels = corpora.settings.level_range
        finest = Products(corpora.vectors(1), self.vectors)
        dense = [DenseExpert(1, layout, finest)]
        for level in levels[1:]:
            pooling = corpora.pooling(level)
            own = finest if pooling else Products(corpora.vectors(level), self.vectors)
            dense.append(DenseExpert(level, layout, own, pooling))
        return [
            *(Bm25Expert(level, layout, corpora.joined_bm25(level), self.terms) for level in levels),
            *dense,
            TitleExpert(layout, corpora.titles, self.terms),
        ]

    @cached_property
    def asked(self) -> Asked:
        """The candidates of every question."""
        best = finest(self.corpora.settings)
        every = list(self.corpora.settings.corpora)
        numbers = np.array([every.index(name) for name in self.corpora.names], np.int64)[self.corpora.owners]
        found = find(self.experts, best, self.corpora.layout, numbers, len(self.queries), allowed=self.allowed)
        words = np.array([len(terms) for terms in self.terms], np.int64)
        return Asked(found, np.asarray(self.vectors, np.float32), words, best)

    def scores(self, kind: str) -> np.ndarray:
        """Score of every candidate by a ranking: `fused`, `mog` or `mix`.

        Raises:
            MogError: its model is damaged, or was trained for another encoder or other experts.
        """
        key = ("scores", kind)
        if key not in self._known:
            asked = self.asked
            names = expert_names(self.corpora.settings)
            self._known[key] = self.model(kind).scores(asked) if kind in MODELS else fused(asked.found, names)
        found: np.ndarray = self._known[key]
        return found

    def model(self, kind: str) -> models.Router | models.Mix:
        """The trained model of a ranking: `mog` or `mix`."""
        if kind not in self.opened:
            settings, stored = self.corpora.settings, self.corpora.read(MODELS[kind], None)
            names, encoder = expert_names(settings), self.encoder()
            if kind == "mog":
                self.opened[kind] = models.open_router(stored, encoder, names)
            else:
                best = [names[i] for i in finest(settings)]
                self.opened[kind] = models.open_mix(stored, encoder, names, best, list(settings.corpora))
        found: models.Router | models.Mix = self.opened[kind]
        return found

    @property
    def chosen(self) -> tuple[Method, str]:
        """The method that `auto` stands for, and why, as one sentence."""
        if AUTO not in self.opened:
            stored = json.loads(tensors.read(self.corpora.read("method", None), CHOSEN, "method"))
            self.opened[AUTO] = parse(stored["method"], self.corpora.settings), stored["why"]
        found: tuple[Method, str] = self.opened[AUTO]
        return found

    def resolved(self, method: Method) -> Method:
        """The method, or the chosen one for `auto`."""
        return self.chosen[0] if method.kind == AUTO else method

    def passages(self, method: Method, k: int | None = None, budget: int | None = None) -> Passages:
        """The best passages for every question, as people and readers get them.

        With a budget, and for `fused`, `mog` and `mix`, neighbouring pieces are joined and no text is repeated.

        Args:
            method: Any method except a control.
            k: Most passages.
            budget: Most characters; the best piece is taken whatever its length.
        """
        method = self.resolved(method)
        found = self.rank(method, k or self.corpora.settings.k)
        if budget is None and not method.ranking:
            return found if k is None else found.at(found.rank < k)
        if not method.graph:
            return joined(found, self.corpora.layout, budget, k)
        return fitting(found if k is None else found.at(found.rank < k), budget or 0)

    def reasons(self, method: Method, found: Passages) -> list[str]:
        """Why each passage is there: what raised the score of its best piece most; empty unless it is a ranking's.

        Args:
            method: What found them.
            found: Result of `passages` or `rank`.
        """
        method = self.resolved(method)
        if not method.ranking:
            return [""] * len(found.question)
        candidates, scores, rows = self.asked.found, self.scores(method.kind), []
        first, last = self.corpora.layout.pieces(found.document, found.start, found.end)
        for question, begin, end in zip(found.question.tolist(), first.tolist(), last.tolist(), strict=True):
            start, stop = candidates.offsets[question : question + 2]
            own = start + np.searchsorted(candidates.piece[start:stop], [begin, end])
            rows.append(own[0] + int(np.argmax(scores[own[0] : own[1]])))
        settings = self.corpora.settings
        names, model = expert_names(settings), self.model(method.kind) if method.kind in MODELS else None
        return reasons(model, self.asked, np.array(rows, np.int64), names, [names[i] for i in finest(settings)])

    def rank(self, method: Method, k: int, weights: np.ndarray | None = None) -> Passages:
        """The passages of every question; those of `fused`, `mog` and `mix` are single pieces.

        Args:
            method: Any method except a control.
            k: Number of passages.
            weights: See `routing.retrieve.Retrieval.rank`.
        """
        method = self.resolved(method)
        if not method.ranking:
            return super().rank(method, k, weights)
        found, scores = self.asked.found, self.scores(method.kind)
        order = ordered(found, scores)
        question, piece = found.question[order], found.piece[order]
        layout = self.corpora.layout
        spans = layout.spans[piece]
        return Passages(
            question,
            places(question),
            layout.document_of[piece],
            spans[:, 0],
            spans[:, 1],
            np.ones(len(piece), np.int64),
            np.asarray(scores, np.float64)[order],
        )
