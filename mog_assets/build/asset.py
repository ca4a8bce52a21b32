"""The asset that a recipe is in Dagster, and what Dagster is told of an artefact: counts, tables, plots and checks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import dagster as dg

from mog_assets.build.materialising import Materialised, materialise
from mog_assets.build.names import Names
from mog_assets.build.plan import needed
from mog_assets.build.recipe import FORCE, JOINED, Check, Recipe
from mog_assets.build.sensors import evaluated
from mog_assets.build.tools import Tools
from mog_assets.resources import tracing
from mog_assets.resources.errors import MogError
from mog_assets.resources.progress import Log
from mog_assets.resources.store import digest, label


def code_version(recipe: Recipe, tools: Tools) -> str:
    """Return the recipe's version and a digest of the settings it depends on; a change of either changes the result."""
    try:
        return f"{recipe.version}-{digest(recipe.settings(tools))[:12]}"
    except MogError as error:
        # The graph must still load; building the asset reports the error.
        return f"{recipe.version}-{digest(str(error))[:12]}"


def as_asset(
    recipe: Recipe,
    recipes: dict[str, Recipe],
    tools: Tools,
    after: Sequence[str] = (),
    condition: dg.AutomationCondition | None = None,
    names: Names = Names(),  # noqa: B008
    theirs: Sequence[str] = (),
) -> dg.AssetsDefinition:
    """Return the Dagster asset of a recipe: content hash as data version, counts and plots as metadata, checks.

    Args:
        recipe: How the asset is built.
        recipes: All recipes, by key.
        tools: Resources with the settings the asset depends on.
        after: Keys of assets that trigger it without being read.
        condition: When it is materialised automatically.
        names: What it is called in Dagster.
        theirs: Keys of assets of another project that trigger it, too.
    """
    # Whatever partitions those have: each corpus waits for all.
    all_partitions = dg.AllPartitionMapping()
    upstream = [dg.AssetDep(dg.AssetKey(name.split("/")), partition_mapping=all_partitions) for name in theirs]
    key, resource, automation = names.key(recipe.key), names.name("tools"), tools.settings.automation

    @dg.asset(
        key=key,
        deps=[*(names.key(dep) for dep in (*recipe.deps, *after)), *upstream],
        partitions_def=names.corpora if recipe.partitioned else None,
        group_name=names.group(recipe.group),
        description=recipe.description,
        code_version=code_version(recipe, tools),
        automation_condition=condition,
        kinds=set(recipe.kinds),
        owners=automation.owners,
        metadata={"dagster/code_references": _code(recipe)},
        freshness_policy=_freshness(automation.measured_within_hours) if recipe in evaluated({"": recipe}) else None,
        pool=recipe.pool,
        required_resource_keys={resource},
        check_specs=[
            dg.AssetCheckSpec(check.name, asset=key, description=check.description, blocking=check.blocking)
            for check in recipe.checks
        ],
        op_tags={
            **({"nvidia.com/gpu": "1"} if recipe.pool in ("gpu", "measuring") else {}),
            # Of the steps of a run that could be next.
            "dagster/priority": str(-recipe.turn),
        },
    )
    def compute(context):  # type: ignore[no-untyped-def]  # Dagster cannot read string annotations
        partition = context.partition_key if recipe.partitioned else None
        tools: Tools = getattr(context.resources, resource)
        if partition is not None and partition not in tools.settings.corpora:
            configured = ", ".join(tools.settings.corpora)
            raise dg.Failure(
                description=f"{label(recipe.key, partition)}: expected a configured corpus ({configured}), "
                f"got {partition!r}: add it to the configuration, or delete the partition",
                allow_retries=False,
            )
        try:
            forced = context.run.tags.get(FORCE, "").split(",")
            force = recipe.repeatable and ("true" in forced or recipe.key in forced)
            outcome = built(recipe, partition, tools, recipes, force=force, log=context.log.info, run=context.run)
        except MogError as error:
            # An expected error needs no retry and no traceback.
            raise dg.Failure(description=str(error), allow_retries=False) from error
        for _, result in checked(recipe, outcome):
            yield dg.AssetCheckResult(asset_key=key, **result)
        if fault := faults(recipe, outcome):
            raise dg.Failure(description=f"{label(recipe.key, partition)}: {fault}", allow_retries=False)
        assert outcome.artefact is not None
        if JOINED in context.run.tags and recipe.partitioned and not is_alone(recipe, recipes):
            _build_others(recipe, tools, recipes, context)
        yield dg.MaterializeResult(
            metadata=metadata(recipe, outcome), data_version=dg.DataVersion(outcome.artefact.manifest.version)
        )

    return compute


def _build_others(recipe: Recipe, tools: Tools, recipes: dict[str, Recipe], context: Any) -> None:
    """Bring an asset of the other corpora up to date, after the run of one has built what it is made from of all."""
    for other in (name for name in tools.settings.corpora if name != context.partition_key):
        try:
            outcome = built(recipe, other, tools, recipes, log=context.log.info, run=context.run)
        # Whatever is wrong with another corpus, this one is built. Its condition asks for it in a run that says so.
        except Exception as error:
            is_ours = isinstance(error, MogError)
            context.log.warning(str(error) if is_ours else f"{label(recipe.key, other)}: {error!r}")
            continue
        if outcome.built and outcome.artefact is not None and not faults(recipe, outcome):
            context.log_event(
                dg.AssetMaterialization(
                    context.asset_key,
                    partition=other,
                    metadata=metadata(recipe, outcome),
                    tags={"dagster/data_version": outcome.artefact.manifest.version},
                )
            )


def _code(recipe: Recipe) -> dg.CodeReferencesMetadataValue:
    """Return where what builds an asset is written, for the link in Dagster's UI."""
    build = recipe.build
    while isinstance(build, partial):
        build = build.func
    code = inspect.unwrap(build).__code__
    where = dg.LocalFileCodeReference(file_path=code.co_filename, line_number=code.co_firstlineno)
    return dg.CodeReferencesMetadataValue(code_references=[where])


def _freshness(hours: float | None) -> dg.FreshnessPolicy | None:
    return None if hours is None else dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=hours))


def is_alone(recipe: Recipe, recipes: Mapping[str, Recipe]) -> bool:
    """Return whether an asset is made from one corpus, whatever other corpora have."""
    return all(recipes[key].partitioned for key in needed(dict(recipes), [recipe.key]))


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
    recomputed = manifest.info.get("recomputed", {})
    values: dict[str, Any] = dict(manifest.counts)
    values["bytes"] = sum(entry["bytes"] for entry in manifest.files.values())
    values["seconds to build"] = round(manifest.seconds, 3)
    values["built now"] = outcome.built
    values["recomputed"] = dg.MetadataValue.json(recomputed if outcome.built else dict.fromkeys(recomputed, 0))
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
