"""The graph of all recipes: what to build, in which order, and what is stale."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mog_assets.build.demand import demand
from mog_assets.build.materialising import Find, is_fresh, state
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
    words = needed(recipes, read.words.keys)
    return {
        key: replace(
            recipe,
            on_demand=recipe.on_demand or key not in wanted,
            turn=0 if key in words else 1 if key in first else 2,
        )
        for key, recipe in recipes.items()
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
    tools: Tools, recipes: dict[str, Recipe], keys: set[str], corpora: Sequence[str], find: Find | None = None
) -> dict[str | None, list[str]]:
    """Assets to materialise, by corpus (None: assets of all corpora): stale ones and everything downstream of them."""
    plan: dict[str | None, list[str]] = {}
    # Many others read the same artefact; look it up only once.
    find = find or functools.cache(tools.store.sound)
    doubtful: set[tuple[str, str | None]] = set()
    for recipe in recipes.values():
        for corpus in corpora if recipe.partitioned else [None]:
            above = [
                (dep, c)
                for dep in recipe.deps
                for c in (corpora if recipes[dep].partitioned and corpus is None else [corpus])
            ]
            above = [(dep, c if recipes[dep].partitioned else None) for dep, c in above]
            if any(a in doubtful for a in above) or not is_fresh(recipe, corpus, tools, recipes, find):
                doubtful.add((recipe.key, corpus))
                if recipe.key in keys:
                    plan.setdefault(corpus, []).append(recipe.key)
    return plan


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
    plan = stale(tools, recipes, set(recipes), corpora, find)
    rows = []
    for key in in_order(recipes, keys):
        for corpus in (corpus for corpus, stale_keys in plan.items() if key in stale_keys):
            parts = plan.values() if corpus is None else (plan[corpus], plan.get(None, []))
            above = [dep for dep in recipes[key].deps if any(dep in part for part in parts)]
            artefact, damage = find(key, corpus), tools.store.damage(key, corpus)
            if damage:
                reason = f"damaged: {damage}"
            elif artefact is None:
                reason = "new"
            elif above:
                reason = f"where these change: {', '.join(above)}"
            else:
                reason = _reason(recipes[key], corpus, tools, recipes, find)
            rows.append(Planned(key, corpus, reason, artefact.manifest.seconds if artefact else 0.0))
    return rows


def _reason(recipe: Recipe, corpus: str | None, tools: Tools, recipes: dict[str, Recipe], find: Find) -> str:
    try:
        return state(recipe, corpus, tools, recipes, find).why
    except MogError as error:
        return str(error)


def phases(recipes: dict[str, Recipe]) -> dict[str, int]:
    """The phase in which an asset is built: even ones are of one corpus, odd ones of all corpora.

    Inputs come first, and then turns decide.
    """
    phases: dict[str, int] = {}
    for turn in sorted({recipe.turn for recipe in recipes.values()}):
        start = max(phases.values(), default=0)
        for recipe in (recipe for recipe in recipes.values() if recipe.turn == turn):
            above = [phases[dep] + (recipes[dep].partitioned != recipe.partitioned) for dep in recipe.deps]
            phases[recipe.key] = max([start + (start % 2 == recipe.partitioned), *above])
    return phases


def waits(
    recipe: Recipe, corpus: str | None, recipes: dict[str, Recipe], undone: Collection[tuple[str, str | None]]
) -> bool:
    """Whether an input of an asset should have been built before, but was not."""
    for dep in recipe.deps:
        if recipes[dep].partitioned and corpus is None:
            if any(key == dep for key, _ in undone):
                return True
        elif (dep, corpus if recipes[dep].partitioned else None) in undone:
            return True
    return False


def up_to_date(settings: Settings, keys: Sequence[str]) -> dict[str, str]:
    """State of unpartitioned assets: `up to date`, `stale` or `never done`."""
    recipes, tools = graph(settings), Tools(settings)
    doubtful = stale(tools, recipes, set(recipes), list(settings.corpora)).get(None, [])
    return {
        key: "never done" if tools.store.find(key) is None else "stale" if key in doubtful else "up to date"
        for key in keys
    }
