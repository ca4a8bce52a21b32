"""Check the artefacts of a project against their manifests."""

from __future__ import annotations

from mog_assets.build.plan import graph
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.documents.corpora_assets import leftovers
from mog_assets.registry import VECTOR_STORES
from mog_assets.resources.store import label


def verify(settings: Settings) -> tuple[int, list[str]]:
    """Return number of artefacts checked, and the faults, one sentence each."""
    tools, checked, faults = Tools(settings), 0, []
    for recipe in graph(settings).values():
        for corpus in settings.corpora if recipe.partitioned else [None]:
            artefact, damage = tools.store.find(recipe.key, corpus), tools.store.damage(recipe.key, corpus)
            if artefact is None and damage is None and recipe.on_demand:
                continue
            checked += 1
            if artefact is None or damage is not None:
                faults.append(f"{label(recipe.key, corpus)}: {damage or 'not materialised'}: run `mog run`")
                continue
            faults += tools.store.verify(artefact)
    left = leftovers(tools.store, settings.corpora)
    for corpus, assets in left.items():
        faults.append(f"corpus {corpus} is not in mog.yaml, but its {', '.join(assets)} still exist: run `mog run`")
    for vectors in VECTOR_STORES.values():
        faults += vectors.faults(tools, {*settings.corpora, *left})
    return checked, faults
