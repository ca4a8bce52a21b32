"""The graph of all recipes: what to build, in which order, and what is stale."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mog_assets.build.demand import demand
from mog_assets.build.materialising import Find, Place, is_fresh, made_from, state
from mog_assets.build.recipe import Recipe
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.registry import RECIPES
from mog_assets.resources.errors import MogError

REGISTRY = "corpus_registry"

# Modules of the core with recipes, in order.
STAGES = (
    "mog_assets.documents.assets",
    "mog_assets.questions.assets",
    "mog_assets.index.chunk_assets",
    "mog_assets.index.assets",
    "mog_assets.index.mentions.assets",
    "mog_assets.evaluate.training_assets",
    "mog_assets.answer.assets",
    "mog_assets.evaluate.assets",
)


def graph(settings: Settings) -> dict[str, Recipe]:
    """The recipes of every stage by key, each after its inputs.

    What no configured method and no result needs is built on demand. What searches by words need is built first, then
    what every search needs.
    """
    stages = [*(importlib.import_module(stage).recipes for stage in STAGES), *RECIPES.values()]
    recipes = _ordered({recipe.key: recipe for recipes_of in stages for recipe in recipes_of(settings)})
    read = demand(settings)
    results = [recipe.key for recipe in recipes.values() if recipe.is_result]
    wanted = needed(recipes, [*results, *read.search.keys, *read.methods.keys])
    # Searches of open projects map the vectors, and use the models of before until there are new ones.
    first = needed(
        recipes,
        [
            *read.search.per_corpus,
            *(key for key in read.search.shared if "candidates" not in needed(recipes, [key])),
        ],
    )
    # Data of removed corpora is deleted first, so that failing corpora do not delay it.
    words = needed(recipes, [REGISTRY, *read.words.keys])
    turns = {key: 0 if key in words else 1 if key in first else 2 for key in recipes}
    return {
        key: replace(recipes[key], on_demand=recipes[key].on_demand or key not in wanted, turn=turn)
        for key, turn in sorted(turns.items(), key=lambda item: item[1])
    }


def _ordered(recipes: dict[str, Recipe]) -> dict[str, Recipe]:
    ordered: dict[str, Recipe] = {}

    def visit(key: str) -> None:
        if key not in ordered:
            for dep in recipes[key].deps:
                visit(dep)
            ordered[key] = recipes[key]

    for key in recipes:
        visit(key)
    return ordered


def needed(recipes: dict[str, Recipe], keys: Collection[str]) -> list[str]:
    """These assets and all their upstream assets, in build order."""
    wanted = set(keys)
    for key in reversed(recipes):
        wanted |= set(recipes[key].deps) if key in wanted else set()
    return in_order(recipes, wanted)


def in_order(recipes: dict[str, Recipe], keys: Collection[str]) -> list[str]:
    """These assets, each once and after its inputs."""
    return [key for key in recipes if key in keys]


def is_complete(settings: Settings) -> bool:
    """Whether nothing is stale of what is built without being named."""
    recipes = graph(settings)
    return not stale(Tools(settings), recipes, default(recipes), list(settings.corpora))


def default(recipes: dict[str, Recipe]) -> set[str]:
    """Keys of the assets that are built without being named."""
    return {key for key, recipe in recipes.items() if not recipe.on_demand}


def stale(
    tools: Tools,
    recipes: dict[str, Recipe],
    keys: Collection[str],
    corpora: Sequence[str],
    find: Find | None = None,
    force: Collection[str] = (),
) -> list[Place]:
    """Return the artefacts to look at, each after its inputs: stale or forced ones, and all that are made from them.

    Args:
        tools: The resources.
        recipes: All recipes, by key.
        keys: Of these assets.
        corpora: Of these corpora.
        find: See `state`.
        force: Keys of unpartitioned assets that count as stale.
    """
    # Many others read the same artefact; look it up only once.
    find = find or functools.cache(tools.store.sound)
    doubtful: dict[Place, None] = {}
    for recipe in recipes.values():
        for corpus in corpora if recipe.partitioned else [None]:
            above = made_from(recipe, corpus, recipes, corpora)
            doubted = recipe.key in force or any(place in doubtful for place in above)
            if doubted or not is_fresh(recipe, corpus, tools, recipes, find):
                doubtful[recipe.key, corpus] = None
    return [place for place in doubtful if place[0] in keys]


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
    """What a run would build of some assets, in build order.

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


def up_to_date(settings: Settings, keys: Sequence[str]) -> dict[str, str]:
    """State of unpartitioned assets: `up to date`, `stale` or `never done`."""
    recipes, tools = graph(settings), Tools(settings)
    doubtful = stale(tools, recipes, recipes, list(settings.corpora))
    return {
        key: "never done" if tools.store.find(key) is None else "stale" if (key, None) in doubtful else "up to date"
        for key in keys
    }
