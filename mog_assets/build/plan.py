"""The graph of all recipes: what to build, in which order, and what is stale."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from mog_assets.build.demand import demand
from mog_assets.build.materialising import Find, Place, is_fresh, is_intact, made_from
from mog_assets.build.measuring import DOCUMENTS, changed_since, has_basis, measured_keys, read_documents
from mog_assets.build.recipe import Recipe
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.registry import RECIPES, Stage
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact, label

REGISTRY = "corpus_registry"

# Recipes of the core, in order.
STAGES = (
    Stage("mog_assets.documents.corpora_assets", (REGISTRY,), (REGISTRY,)),
    Stage("mog_assets.documents.assets", (DOCUMENTS,)),
    Stage("mog_assets.questions.assets", ("questions",), ("questions",)),
    Stage("mog_assets.index.chunk_assets", ("chunks/", "sentence_vectors")),
    Stage("mog_assets.index.assets", ("tokens", "bm25/", "statistics", "embeddings/", "neighbours")),
    Stage("mog_assets.index.mentions.assets", ("names", "mentions")),
    Stage("mog_assets.evaluate.training_assets", ("candidates", "known_items", "method"), ("method",), others=True),
    Stage("mog_assets.answer.assets", ("answers",)),
    Stage("mog_assets.evaluate.assets", ("runs", "scores", "answer_scores"), ("scores",)),
)


def graph(settings: Settings, keys: Collection[str] | None = None) -> dict[str, Recipe]:
    """Return the recipes of every stage by key, each after its inputs.

    What no configured method and no result needs is built on demand. What searches by words need is built first, then
    what every search needs.

    Args:
        settings: Of the project.
        keys: Only the stages of these assets, and of all that they are made from; None: every stage.
    """
    recipes = _ordered(_declared(settings, keys))
    read = demand(settings)
    results = [recipe.key for recipe in recipes.values() if recipe.is_result]
    wanted = needed(recipes, [*results, *read.search.keys, *read.methods.keys])
    # Searches of open projects map the vectors, and use the models of before until there are new ones.
    first = needed(
        recipes,
        [
            *read.search.per_corpus,
            *(key for key in read.search.common if "candidates" not in needed(recipes, [key])),
        ],
    )
    # Data of removed corpora is deleted first, so that failing corpora do not delay it.
    words = needed(recipes, [REGISTRY, *read.words.keys])
    turns = {key: 0 if key in words else 1 if key in first else 2 for key in recipes}
    measured = measured_keys(recipes)
    return {
        key: replace(
            recipes[key], on_demand=recipes[key].on_demand or key not in wanted, turn=turn, measured=key in measured
        )
        for key, turn in sorted(turns.items(), key=lambda item: item[1])
    }


def built_unasked(settings: Settings) -> list[str]:
    """Return the keys of results, and of what searches and configured methods read."""
    read = demand(settings)
    results = [key for stage in (*STAGES, *RECIPES.values()) if isinstance(stage, Stage) for key in stage.results]
    return [*results, *read.search.keys, *read.methods.keys]


def _declared(settings: Settings, keys: Collection[str] | None) -> dict[str, Recipe]:
    """Return the recipes of all stages, or of those that some assets and their inputs are of."""
    stages, wanted, declared = [*STAGES, *RECIPES.values()], set(keys or ()), dict[int, list[Recipe]]()

    def is_needed(stage: Any) -> bool:
        if keys is None or not isinstance(stage, Stage) or any(map(stage.declares, wanted)):
            return True
        declaring = [one for one in stages if isinstance(one, Stage)]
        return stage.others and any(not any(one.declares(key) for one in declaring) for key in wanted)

    while now := [number for number, stage in enumerate(stages) if number not in declared and is_needed(stage)]:
        for number in now:
            declared[number] = stages[number](settings)
            wanted.update(dep for recipe in declared[number] for dep in recipe.deps)
    return {recipe.key: recipe for number in sorted(declared) for recipe in declared[number]}


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
    """Return these assets and all their upstream assets, in build order."""
    wanted = set(keys)
    for key in reversed(recipes):
        wanted |= set(recipes[key].deps) if key in wanted else set()
    return in_order(recipes, wanted)


def in_order(recipes: dict[str, Recipe], keys: Collection[str]) -> list[str]:
    """Return these assets, each once and after its inputs."""
    return [key for key in recipes if key in keys]


def is_complete(settings: Settings, evaluate: bool = False) -> bool:
    """Return whether nothing is stale of what is due, see `due`."""
    recipes, tools = graph(settings), Tools(settings)
    return not stale(tools, recipes, due(tools, recipes, evaluate), list(settings.corpora))


def default(recipes: dict[str, Recipe]) -> set[str]:
    """Return keys of the assets that are built without being named."""
    return {key for key, recipe in recipes.items() if not recipe.on_demand}


def due(tools: Tools, recipes: dict[str, Recipe], evaluate: bool = False) -> set[str]:
    """Return the keys of the assets that are built now without being named.

    Args:
        tools: The resources.
        recipes: All recipes, by key.
        evaluate: Whether those that measure are due in any case.
    """
    keys = default(recipes)
    if evaluate or time_to_measure(tools, recipes):
        return keys
    return {key for key in keys if not recipes[key].measured}


def time_to_measure(tools: Tools, recipes: dict[str, Recipe]) -> dict[str, str]:
    """Return why it is time to measure, by key of the asset; empty if it is not.

    It is when something was never made, or its making was interrupted; when questions, settings or code have changed;
    when more than the share `drift.training` of the documents has changed.
    """
    find, why = functools.cache(tools.store.sound), {}
    now = read_documents(tools, find)
    total = sum(a.manifest.counts["documents"] for corpus in now if (a := find(DOCUMENTS, corpus)))
    for key, recipe in recipes.items():
        if recipe.measured and not recipe.on_demand:
            artefact = find(key, None)
            changed = changed_since(artefact, now) if artefact else 0
            if artefact is None:
                why[key] = "new"
            elif changed > tools.settings.drift.training * total:
                why[key] = "documents"
            elif not _as_measured(artefact, recipe, tools, recipes, find, bool(changed)):
                why[key] = "changed"
    return why


def is_settled(tools: Tools, recipes: dict[str, Recipe]) -> bool:
    """Return whether all that measuring reads is there, and was made from what is there."""
    find, corpora = functools.cache(tools.store.find), list(tools.settings.corpora)
    reads = needed(recipes, [key for key, recipe in recipes.items() if recipe.measured and not recipe.on_demand])
    for recipe in (recipes[key] for key in reads if not recipes[key].measured):
        for corpus in corpora if recipe.partitioned else [None]:
            if (artefact := find(recipe.key, corpus)) is None:
                return False
            above = {label(*place): find(*place) for place in made_from(recipe, corpus, recipes, corpora)}
            if any(a is None or a.manifest.version != artefact.manifest.inputs.get(n) for n, a in above.items()):
                return False
    return True


def _as_measured(
    artefact: Artefact, recipe: Recipe, tools: Tools, recipes: dict[str, Recipe], find: Find, changed: bool
) -> bool:
    """Return whether a measurement would be as it is; that documents have `changed` does not count."""
    if not changed:
        return is_fresh(recipe, None, tools, recipes, find)
    try:
        unchanged = has_basis(artefact, recipe, recipes, tools) and is_intact(recipe, tools, artefact)
    except MogError:
        # Building it reports that.
        return False
    above = {dep: find(dep, None) for dep in recipe.deps if recipes[dep].measured}
    return unchanged and all(a and a.manifest.version == artefact.manifest.inputs.get(dep) for dep, a in above.items())


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
    documents = read_documents(tools, find)
    for recipe in (recipes[key] for key in needed(recipes, keys)):
        for corpus in corpora if recipe.partitioned else [None]:
            above = made_from(recipe, corpus, recipes, corpora)
            doubted = recipe.key in force or any(place in doubtful for place in above)
            if recipe.measured and (artefact := find(recipe.key, corpus)):
                # What it says of documents is corrected, if no more.
                doubted = doubted or changed_since(artefact, documents) > 0
            if doubted or not is_fresh(recipe, corpus, tools, recipes, find):
                doubtful[recipe.key, corpus] = None
    return [place for place in doubtful if place[0] in keys]


def up_to_date(settings: Settings, keys: Sequence[str]) -> dict[str, str]:
    """Return state of unpartitioned assets: `up to date`, `stale` or `never done`."""
    recipes, tools = graph(settings), Tools(settings)
    doubtful = stale(tools, recipes, recipes, list(settings.corpora))
    return {
        key: "never done" if tools.store.find(key) is None else "stale" if (key, None) in doubtful else "up to date"
        for key in keys
    }
