"""Of which documents a measurement is, and what else decides it.

An edit updates the index. Questions, what is trained on them, and what is measured with them stay those of earlier
documents until it is time to measure, see `plan.time_to_measure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mog_assets.build.recipe import Recipe
from mog_assets.build.tools import Tools
from mog_assets.resources.store import Artefact, digest

DOCUMENTS = "documents"
_STATE = "measured"


def measured_keys(recipes: Mapping[str, Recipe]) -> set[str]:
    """Return the keys of all assets that measure: those that say so, and what of all corpora is made from them."""
    measured = set[str]()
    for key, recipe in recipes.items():
        if recipe.measured or (not recipe.partitioned and measured.intersection(recipe.deps)):
            measured.add(key)
    return measured


def basis(keys: Iterable[str], recipes: Mapping[str, Recipe], tools: Tools) -> str:
    """Return a digest of all that decides what assets hold, but the documents: questions, settings, code."""
    parts: dict[str, Any] = {}
    wanted = list(keys)
    for key in wanted:
        above = recipes[key]
        if key not in parts:
            source = None if above.partitioned else above.source(tools.settings, None)
            parts[key] = [above.version, above.settings(tools), source]
            wanted += above.deps
    return digest(parts, sorted(tools.settings.corpora))


def read_documents(tools: Tools, find: Callable[[str, str | None], Artefact | None]) -> dict[str, list[Any]]:
    """Return of each corpus that has been read the version of its documents, and how many have ever changed."""
    artefacts = {corpus: find(DOCUMENTS, corpus) for corpus in tools.settings.corpora}
    return {corpus: [a.manifest.version, a.manifest.info.get("changes", 0)] for corpus, a in artefacts.items() if a}


def noted(recipe: Recipe, recipes: Mapping[str, Recipe], tools: Tools) -> dict[str, Any]:
    """Return what the manifest of a measurement says of what it was made with."""
    return {_STATE: {"basis": basis([recipe.key], recipes, tools), DOCUMENTS: read_documents(tools, tools.store.find)}}


def has_basis(artefact: Artefact, recipe: Recipe, recipes: Mapping[str, Recipe], tools: Tools) -> bool:
    """Return whether an artefact was made with the questions, settings and code of now."""
    return bool(artefact.manifest.info.get(_STATE, {}).get("basis") == basis([recipe.key], recipes, tools))


def changed_since(artefact: Artefact, now: Mapping[str, list[Any]]) -> int:
    """Return how many documents have changed since an artefact was made, see `read_documents`."""
    return changes_between(artefact.manifest.info.get(_STATE, {}).get(DOCUMENTS, {}), now)


def changes_between(before: Mapping[str, list[Any]], now: Mapping[str, list[Any]]) -> int:
    """Return how many documents have changed from one state to another, see `read_documents`."""
    changed = 0
    for corpus in before.keys() | now.keys():
        (version, count), (then, counted) = now.get(corpus, ["", 0]), before.get(corpus, ["", 0])
        # Where documents were damaged, counting began anew.
        changed += max(1, abs(count - counted)) if version != then else 0
    return changed
