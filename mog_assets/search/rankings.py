"""Rankings of pieces: orders of a question's candidates by what all experts say of them.

A `Ranking` makes a kind of method by `ranked_by`; see `methods`. Those that need no training here weigh the experts as
was learned on other collections (`router`); trained ones read the model that an asset of their own holds, see
`trainers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.build.demand import Needs
from mog_assets.config import Settings
from mog_assets.resources.store import Artefact
from mog_assets.search import explain, multihop
from mog_assets.search.candidates import Candidates
from mog_assets.search.experts import EXPERTS
from mog_assets.search.index import Index
from mog_assets.search.methods import METHODS, Kind, named_methods
from mog_assets.search.models import Opening
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.router import Routed, Router


@dataclass(frozen=True)
class Ranking:
    """An order of candidates.

    Attributes:
        router: Opens what weighs the experts without training; None if a model is trained.
        asset: Key of the trained model.
        opened: Loads the model, given it and what it must have been trained for.
        trainer: How the model is trained, see `trainers.Trainer`.
        library: What trains it, as a kind of Dagster's.
        description: Description of the asset.
        complexity: Its place among the rankings that are trained wherever there are training questions, from 1, the one
            with the fewest parameters; 0 if it is trained only where a method names it.
        asks_twice: Whether questions are asked again together with their best pieces, see `multihop`.
        reads: Whether experts are asked that read texts together with the question.
    """

    router: Callable[[], Router] | None = None
    asset: str = ""
    opened: Callable[[Artefact, Opening], Any] | None = None
    trainer: Any = None
    library: str = "python"
    description: str = ""
    complexity: int = 0
    asks_twice: bool = False
    reads: bool = False

    def open(self, index: Index) -> Any:
        """Open the model: trained here, or the router of the package."""
        names = index.experts
        if self.opened is None:
            assert self.router is not None
            return Routed(self.router(), names)
        opening = Opening(index.fingerprint(), names, [names[0], names[index.levels]], list(index.settings.corpora))
        return self.opened(index.corpora.read(self.asset, None), opening)


# What rankings are listed under; the page has what they tell of each passage.
RANKINGS = "rankings"


def ranked_by(ranking: Ranking, description: str, look: tuple[str, str]) -> Kind:
    """Return a ranking as a kind of method."""
    return Kind(
        multihop.ranked_again if ranking.asks_twice else Retrieval.ranked_pieces,
        lambda method, settings: _needs(ranking, settings),
        description,
        look,
        trained=ranking.router is None,
        ranking=ranking,
        reasons=explain.reasons_of,
        weights=explain.expert_shares,
        family=RANKINGS,
    )


def _needs(ranking: Ranking, settings: Settings) -> Needs:
    experts = [EXPERTS[name] for name in settings.ranking.experts]
    per_corpus = [*searched(settings).per_corpus, *(key for expert in experts for key in expert.per_corpus)]
    common = ["statistics", *([ranking.asset] if ranking.asset else [])]
    common += [key for expert in experts for key in expert.common(settings)]
    return Needs(tuple(dict.fromkeys(per_corpus)), tuple(dict.fromkeys(common)))


def searched(settings: Settings) -> Needs:
    """Return what every search reads."""
    vectors = [f"embeddings/level_{level}" for level in settings.level_range]
    return Needs(("documents", "chunks/level_1", "tokens", "bm25/level_1", *vectors, "neighbours"), ("statistics",))


RERANKED = "reranked"


def trained_by_default() -> list[str]:
    """Return the rankings that are trained wherever there are training questions, the simplest first."""
    rankings = {name: kind.ranking for name, kind in METHODS.items() if kind.ranking and kind.ranking.complexity}
    return sorted(rankings, key=lambda name: rankings[name].complexity)


def models_of(settings: Settings) -> dict[str, str]:
    """Return the learned rankings that `auto` may stand for, the simplest last, with the keys of their models."""
    # Those of the group `default` are trained whatever is compared.
    named = {method.kind for method in named_methods(settings)} | set(trained_by_default())
    rankings = {name: kind.ranking for name, kind in METHODS.items() if kind.ranking is not None and name in named}
    learned = [name for name, ranking in rankings.items() if ranking.asset]
    return {name: rankings[name].asset for name in sorted(learned, key=lambda name: -rankings[name].complexity)}


def rereads(settings: Settings) -> list[str]:
    """Return the ranking that asks experts which read texts together with the question, if there are any."""
    return [RERANKED] if any(EXPERTS[name].reads for name in settings.ranking.experts) else []


def fused(candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
    """Score of every candidate by `fused`; `experts` are the names of the experts."""
    return Router.shipped().scores(candidates, experts)
