"""Passages by any method: `fused`, `mog` and `mix` here, all others as `routing.retrieve` has them.

Everything that asks for passages goes through `Retrieval.open`: commands, assets and experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mog_assets.arrays import places
from mog_assets.config import Settings
from mog_assets.ranking import models
from mog_assets.ranking.candidates import Candidates, find
from mog_assets.ranking.experts import Bm25Expert, DenseExpert, Expert, TitleExpert
from mog_assets.ranking.gold import ordered
from mog_assets.ranking.models import Asked
from mog_assets.retrieval.methods import Method, Passages
from mog_assets.routing import retrieve as routed
from mog_assets.routing.retrieve import Needs

# Key of the model of each learned ranking.
MODELS = {"mog": "router", "mix": "mix"}


def expert_names(settings: Settings) -> list[str]:
    """Names of the experts, in the order of their scores."""
    levels = settings.level_range
    return [*(f"bm25-{level}" for level in levels), *(f"dense-{level}" for level in levels), "title"]


def finest(settings: Settings) -> list[int]:
    """Positions of the experts that score pieces themselves."""
    return [0, settings.levels]


def fused(found: Candidates) -> np.ndarray:
    """Score of every candidate without training: the sum of what the experts of all levels give it, each in 0 … 1."""
    return found.relative.sum(axis=1)


def needs(methods: Sequence[Method], settings: Settings) -> Needs:
    """The assets that some methods need for ranking."""
    others = routed.needs([method for method in methods if not method.ranking], settings)
    rankings = [method.kind for method in methods if method.ranking]
    if not rankings:
        return others
    indexes = [f"{kind}/level_{level}" for kind in ("bm25", "embeddings") for level in settings.level_range]
    per_corpus = dict.fromkeys(("documents", "chunks/level_1", "tokens", *indexes, *others.per_corpus))
    models_of = [MODELS[kind] for kind in dict.fromkeys(rankings) if kind in MODELS]
    return Needs(tuple(per_corpus), (*others.shared, *models_of))


@dataclass(frozen=True)
class Retrieval(routed.Retrieval):
    """Questions, with the data shared by all methods, each computed once."""

    @property
    def experts(self) -> list[Expert]:
        """The experts, for these questions."""
        corpora, layout = self.corpora, self.corpora.layout
        levels = corpora.settings.level_range
        return [
            *(Bm25Expert(level, layout, corpora.bm25(level), self.terms) for level in levels),
            *(DenseExpert(level, layout, corpora.vectors(level), self.vectors) for level in levels),
            TitleExpert(layout, corpora.titles, self.terms),
        ]

    @cached_property
    def asked(self) -> Asked:
        """The candidates of every question."""
        best = finest(self.corpora.settings)
        found = find(self.experts, best, self.corpora.layout, len(self.queries))
        words = np.array([len(terms) for terms in self.terms], np.int64)
        return Asked(found, np.asarray(self.vectors, np.float32), words, best)

    def scores(self, kind: str) -> np.ndarray:
        """Score of every candidate by a ranking: `fused`, `mog` or `mix`.

        Raises:
            MogError: its model is damaged, or was trained for another encoder or other experts.
        """
        if kind not in MODELS:
            return fused(self.asked.found)
        return self.model(kind).scores(self.asked)

    def model(self, kind: str) -> models.Router | models.Mix:
        """The trained model of a ranking: `mog` or `mix`."""
        if kind not in self.opened:
            settings, stored = self.corpora.settings, self.corpora.read(MODELS[kind], None)
            names, encoder = expert_names(settings), self.encoder()
            if kind == "mog":
                self.opened[kind] = models.open_router(stored, encoder, names)
            else:
                best = [names[i] for i in finest(settings)]
                self.opened[kind] = models.open_mix(stored, encoder, names, best)
        found: models.Router | models.Mix = self.opened[kind]
        return found

    def rank(self, method: Method, k: int, weights: np.ndarray | None = None) -> Passages:
        """The passages of every question; those of `fused`, `mog` and `mix` are single pieces.

        Args:
            method: Any method except a control.
            k: Number of passages.
            weights: See `routing.retrieve.Retrieval.rank`.
        """
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
