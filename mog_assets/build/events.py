"""Tell Dagster of an artefact: counts, tables, plots and checks, by a run of Dagster or without one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import dagster as dg

from mog_assets.build.materialising import Materialised, materialise
from mog_assets.build.recipe import Check, Recipe
from mog_assets.build.tools import Tools
from mog_assets.resources import tracing
from mog_assets.resources.progress import Log


def built(
    recipe: Recipe,
    corpus: str | None,
    tools: Tools,
    recipes: dict[str, Recipe],
    *,
    force: bool = False,
    log: Log | None = None,
    run: dg.DagsterRun | None = None,
) -> Materialised:
    """Materialise an artefact, traced.

    Args:
        recipe: What to build.
        corpus: The partition, None for an asset of all corpora.
        tools: The resources.
        recipes: All recipes, by key.
        force: As for `materialise`.
        log: As for `materialise`.
        run: That of Dagster which builds it, if one does; its tags may name the trace that it is part of.
    """
    tags, noted = (run.tags, {"dagster__run_id": run.run_id}) if run else ({}, {})
    with tracing.within({**os.environ, **tags}), tracing.span(recipe.key, corpus=corpus):
        outcome = materialise(recipe, corpus, tools, recipes, log, force)
        tracing.note(built=outcome.built, why=outcome.why or None, **noted)
    return outcome


def faults(recipe: Recipe, outcome: Materialised) -> str:
    """Describe the faults of blocking checks, which keep a new artefact from being used; empty if there is none."""
    blocking = {check.name for check in recipe.checks if check.blocking}
    return "; ".join(f"{name}: {fault}" for name, fault in outcome.faults.items() if name in blocking)


def checked(recipe: Recipe, outcome: Materialised) -> Iterator[tuple[Check, dict[str, Any]]]:
    """Yield each check with its result, as arguments of Dagster's classes."""
    for check in recipe.checks:
        fault = outcome.faults.get(check.name)
        yield (
            check,
            {
                "check_name": check.name,
                "passed": fault is None,
                "severity": dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
                "metadata": {"fault": fault} if fault else {"checked": "now" if outcome.built else "when it was built"},
            },
        )


def metadata(recipe: Recipe, outcome: Materialised) -> dict[str, Any]:
    """Return the figures, tables and plots of an artefact, and what it ran on."""
    assert outcome.artefact is not None
    manifest = outcome.artefact.manifest
    made = manifest.info.get("recomputed", {})
    values: dict[str, Any] = dict(manifest.counts)
    values["bytes"] = sum(entry["bytes"] for entry in manifest.files.values())
    values["seconds to build"] = round(manifest.seconds, 3)
    values["built now"] = outcome.built
    values["recomputed"] = dg.MetadataValue.json(made if outcome.built else dict.fromkeys(made, 0))
    if recipe.pool:
        values["pool"] = recipe.pool
    if "device" in manifest.info:
        values["device"] = manifest.info["device"]
    if outcome.why:
        values["why"] = outcome.why
    if outcome.damage:
        values["damage"] = outcome.damage
    for title, text in outcome.artefact.shown().items():
        values[title] = dg.MetadataValue.md(text)
    return values


def report(instance: dg.DagsterInstance, recipe: Recipe, corpus: str | None, outcome: Materialised) -> None:
    """Record an artefact that was built outside Dagster's runs, for its UI and its automation conditions."""
    key = dg.AssetKey(recipe.key.split("/"))
    if not faults(recipe, outcome):
        assert outcome.artefact is not None
        tags = {"dagster/data_version": outcome.artefact.manifest.version}
        instance.report_runless_asset_event(
            dg.AssetMaterialization(key, partition=corpus, metadata=metadata(recipe, outcome), tags=tags)
        )
    for check, result in checked(recipe, outcome) if outcome.built else ():
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(asset_key=key, blocking=check.blocking, description=check.description, **result)
        )
