"""Plan what a run would build, and say why."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mog_assets.build.materialising import Find, made_from, state
from mog_assets.build.plan import graph, stale
from mog_assets.build.recipe import Recipe
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.resources.errors import MogError


@dataclass(frozen=True)
class Planned:
    """An artefact that a run would look at.

    Attributes:
        asset: Its key.
        corpus: Its corpus; None if it is of all corpora.
        why: Why it is built, or after which inputs it may be.
        seconds: How long it took last time; 0 if it was never built.
    """

    asset: str
    corpus: str | None
    why: str
    seconds: float


def planned(settings: Settings, keys: Collection[str], corpora: Sequence[str]) -> list[Planned]:
    """Return what a run would build of some assets, in build order.

    Args:
        settings: Of the project.
        keys: The assets.
        corpora: Names of the corpora.
    """
    recipes, tools = graph(settings), Tools(settings)
    find = functools.cache(tools.store.sound)
    doubtful, rows = stale(tools, recipes, recipes, corpora, find), []
    for key, corpus in (place for place in doubtful if place[0] in keys):
        above = [place[0] for place in made_from(recipes[key], corpus, recipes, corpora) if place in doubtful]
        artefact, damage = find(key, corpus), tools.store.damage(key, corpus)
        if damage:
            reason = f"damaged: {damage}"
        elif artefact is None:
            reason = "new"
        elif above:
            reason = f"where these change: {', '.join(dict.fromkeys(above))}"
        else:
            reason = _reason(recipes[key], corpus, tools, recipes, find)
        rows.append(Planned(key, corpus, reason, artefact.manifest.seconds if artefact else 0.0))
    return rows


def _reason(recipe: Recipe, corpus: str | None, tools: Tools, recipes: dict[str, Recipe], find: Find) -> str:
    try:
        return state(recipe, corpus, tools, recipes, find).why
    except MogError as error:
        return str(error)
