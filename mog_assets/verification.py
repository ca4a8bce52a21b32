"""Check the artefacts of a project against their manifests."""

from __future__ import annotations

from mog_assets.config import Settings
from mog_assets.corpus.assets import leftovers
from mog_assets.plan import graph
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import label
from mog_assets.retrieval.checks import collection_fault
from mog_assets.tools import Tools


def verify(settings: Settings) -> tuple[int, list[str]]:
    """Number of artefacts checked, and the faults, one sentence each."""
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
            if recipe.key.startswith("collections/") and corpus is not None:
                level = int(recipe.key.rsplit("_", 1)[1])
                size = artefact.manifest.info["size"]
                try:
                    fault = collection_fault(tools.qdrant, level, size, corpus, artefact.path("ids.npy"))
                except MogError as error:
                    fault = str(error)
                faults += [fault] if fault else []
    left = leftovers(tools.store, settings.corpora)
    for corpus, assets in left.items():
        faults.append(f"corpus {corpus} is not in mog.yaml, but its {', '.join(assets)} still exist: run `mog run`")
    for level in settings.level_range:
        try:
            counts = tools.qdrant.counts(f"level_{level}")
        except MogError as error:
            faults.append(str(error))
            continue
        for corpus in sorted(counts.keys() - settings.corpora.keys() - left.keys()):
            faults.append(
                f"collection level_{level} holds {counts[corpus]} points of corpus {corpus}, which is not in mog.yaml: "
                f"delete the collection (`qdrant/level_{level}` of the home folder) and run `mog run`"
            )
    return checked, faults
