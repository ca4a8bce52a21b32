"""The asset of all corpora, `corpus_registry`: with it go the data of those that are gone."""

from __future__ import annotations

import json
from collections.abc import Iterable

from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings, copies
from mog_assets.documents.assets import GROUP, contents_file
from mog_assets.documents.sources import forgotten
from mog_assets.registry import VECTOR_STORES
from mog_assets.resources.publishing import removable, remove
from mog_assets.resources.store import Store


def leftovers(store: Store, corpora: Iterable[str]) -> dict[str, list[str]]:
    """Return artefacts, complete or not, of other corpora: asset keys by corpus; without what is still read."""
    members: dict[str, list[str]] = {}
    root = store.folder("")
    # An asset's key has one part or two.
    for folder in sorted([*root.glob("*/corpus/*"), *root.glob("*/*/corpus/*")]):
        # A file here is not a corpus.
        if folder.is_dir() and folder.name not in set(corpora) and removable(store, folder):
            members.setdefault(folder.name, []).append(folder.parent.parent.relative_to(root).as_posix())
    return members


def build_registry(work: Work) -> None:
    """Record the configured corpora and delete all data of others."""
    store, corpora = work.tools.store, sorted(work.settings.corpora)
    gone = leftovers(store, corpora)
    artefacts, removed = 0, dict[str, float]()
    # Vectors first: while an artefact exists, an interrupted removal is known to be unfinished.
    for vectors in VECTOR_STORES.values():
        removed |= vectors.forget(work.tools, gone)
    for corpus, assets in gone.items():
        for asset in assets:
            with store.lock(asset, corpus):
                remove(store, asset, corpus)
        (work.settings.home / "cache" / f"reading-{corpus}.parquet").unlink(missing_ok=True)
        contents_file(work.settings, corpus).unlink(missing_ok=True)
        forgotten(copies(work.settings.home, corpus))
        artefacts += len(assets)
    work.write("corpora.json", [corpora], lambda path: path.write_text(json.dumps(corpora), encoding="utf-8"))
    work.counts["corpora"] = len(corpora)
    work.recomputed |= {"corpora removed": len(gone), "artefacts removed": artefacts, **removed}
    work.show_table("corpora", [{"corpus": corpus} for corpus in corpora])
    work.show_table("removed", [{"corpus": c, "artefacts": len(assets)} for c, assets in gone.items()])


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipe of this stage."""
    return [
        Recipe(
            key="corpus_registry",
            build=build_registry,
            description="The corpora of mog.yaml. Building it deletes all data of other corpora.",
            is_result=True,
            group=GROUP,
            partitioned=False,
            source=lambda settings, _: sorted(settings.corpora),
            outside="configured_corpora",
            intact=lambda tools, _: not leftovers(tools.store, tools.settings.corpora),
            kinds=("json",),
        ),
    ]
