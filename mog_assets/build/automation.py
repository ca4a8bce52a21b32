"""Dagster Definitions made from settings: the asset graph, its jobs, sensors, schedule and conditions."""

from __future__ import annotations

import importlib
import os
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from mog_assets.build.asset import as_asset, is_alone
from mog_assets.build.names import Names
from mog_assets.build.plan import REGISTRY, graph
from mog_assets.build.recipe import MEASURING, SOURCES, Recipe
from mog_assets.build.records import hold
from mog_assets.build.sensors import Host, automation_sensor, evaluated, nightly, sweep
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.config import file as settings_file
from mog_assets.config import load as load_settings
from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.store import digest

EXECUTOR_VARIABLE = "MOG_EXECUTOR"
# Module and name of the executor for each value of MOG_EXECUTOR.
_EXECUTORS = {
    "inprocess": ("dagster", "in_process_executor"),
    "multiprocess": ("dagster", "multiprocess_executor"),
    "k8s_job": ("dagster_k8s", "k8s_job_executor"),
    "ray": ("dagster_ray", "ray_executor"),
}


def definitions(
    config: str | Path | None = None, *, key_prefix: str | Sequence[str] = (), group_prefix: str | None = None
) -> dg.Definitions:
    """Return the graph of a `mog.yaml`, to be merged into the Definitions of another Dagster project.

    It holds no executor: steps run as the other project says. Sensors and jobs select assets of this graph only.

    Args:
        config: The configuration file; None: the value of `MOG_CONFIG`, else `mog.yaml` in the working directory.
        key_prefix: First parts of every asset key, such as `"mog"` or `"search/mog"`. Joined by `_`, they also begin
            the names of jobs, sensors, the schedule, the resource, the partitions definition, and of groups.
        group_prefix: Begins every group name instead; an empty text for none.

    Raises:
        ConfigError: the configuration or a prefix is invalid.
    """
    source = settings_file(config)
    names = Names.under(key_prefix, group_prefix)
    return build(load_settings(source), Host(names, lambda: load_settings(source), alone=False))


def build(settings: Settings, host: Host = Host()) -> dg.Definitions:  # noqa: B008
    """Return the Definitions for these settings.

    Args:
        settings: The settings.
        host: The Dagster project that they are for; by default one that holds nothing else.

    Raises:
        ConfigError: MOG_EXECUTOR names an unknown executor, or one that is not installed.
    """
    with warnings.catch_warnings():
        # Dagster warns that parts of its own API may change; users of `mog` can do nothing about that.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"dagster\.")
        return _definitions(settings, host)


def _definitions(settings: Settings, host: Host) -> dg.Definitions:
    recipes, tools, names = graph(settings), Tools(settings).settled(), host.names
    outside = [_outside(r, r.outside, host) for r in recipes.values() if r.outside]
    if any(r.measured for r in recipes.values()):
        outside.append(_measuring(names))
    theirs = [] if host.alone else sorted({key for corpus in settings.corpora.values() for key in corpus.upstream})
    assets = [
        as_asset(r, recipes, tools, _after(r, recipes), _condition(r, recipes, names), names, upstream)
        for r in recipes.values()
        for upstream in [theirs if r.outside == SOURCES else []]
    ]
    job = partial(_job, names, settings.automation.run_tags)
    jobs = [
        job("build", [r for r in recipes.values() if not r.on_demand and is_alone(r, recipes)]),
        job("evaluate", evaluated(recipes)),
    ]
    for named in dict.fromkeys(r.job for r in recipes.values() if r.job):
        jobs.append(job(named, [r for r in recipes.values() if r.job == named]))
    # The assets of another project are its own business.
    alone = dg.AssetSelection.assets(*map(names.key, recipes))
    target = dg.AssetSelection.all() if host.alone else alone
    return dg.Definitions(
        assets=[*outside, *assets],
        jobs=jobs,
        sensors=[automation_sensor(settings, target, recipes, host)],
        schedules=nightly(settings, jobs[1], recipes, names),
        resources={names.name("tools"): tools},
        executor=_executor(os.environ.get(EXECUTOR_VARIABLE) or "inprocess") if host.alone else None,
    )


def _job(names: Names, tags: Mapping[str, str], name: str, recipes: Collection[Recipe]) -> Any:
    selected = dg.AssetSelection.assets(*(names.key(recipe.key) for recipe in recipes))
    return dg.define_asset_job(names.name(name), selected, run_tags=tags)


def _executor(name: str) -> dg.ExecutorDefinition:
    if name not in _EXECUTORS:
        raise ConfigError(f"{EXECUTOR_VARIABLE}: expected one of {', '.join(_EXECUTORS)}, got {name!r}")
    package, attribute = _EXECUTORS[name]
    try:
        return _holding(getattr(importlib.import_module(package), attribute))
    except ImportError as error:
        raise ConfigError(
            f"{EXECUTOR_VARIABLE}: expected an executor that is installed, got {name!r}, which needs the package "
            f"{package.replace('_', '-')} ({error}): {extras.command(package)}"
        ) from error


def _holding(inner: Any) -> dg.ExecutorDefinition:
    """Return the executor; its process holds the lock file of the run, so that a killed run is told from a long one."""

    def create(context: dg.InitExecutorContext) -> dg.Executor:
        executor: Any = inner.executor_creation_fn(context)
        execute = executor.execute

        def execute_holding(run: Any, plan: Any) -> Any:
            hold(run.instance, run.run_id)
            return execute(run, plan)

        executor.execute = execute_holding
        return executor

    return dg.ExecutorDefinition(inner.name, inner.config_schema, inner.get_requirements, create, inner.description)


def _outside(recipe: Recipe, name: str, host: Host) -> dg.SourceAsset:
    """Return the external asset for what a recipe reads outside the store, observable so that observations count."""
    names = host.names

    @dg.observable_source_asset(
        key=names.key(name),
        partitions_def=names.corpora if recipe.partitioned else None,
        group_name=names.group(recipe.group),
        description=f"Files that `{recipe.key}` reads outside the store, as last seen by the sensor "
        f"`{names.name('automation')}`.",
    )
    def observe(context):  # type: ignore[no-untyped-def]  # Dagster cannot read string annotations
        partitions = context.instance.get_dynamic_partitions(names.name("corpus"))
        events, _, troubles = sweep({recipe.key: recipe}, host.load(), partitions, {}, names)
        if not events:
            raise dg.Failure(description="; ".join(troubles) or f"there is no {name} yet", allow_retries=False)
        for trouble in troubles:
            context.log.warning(trouble)
        if not recipe.partitioned:
            return dg.DataVersion(str(events[0].data_version))
        return dg.DataVersionsByPartition({str(event.partition): str(event.data_version) for event in events})

    return observe


def _measuring(names: Names) -> dg.SourceAsset:
    """Return the external asset that stands for the time to measure; to observe it by hand is to say that it is."""

    @dg.observable_source_asset(
        key=names.key(MEASURING),
        group_name=names.group("evaluation"),
        description="Changes when it is time to measure: something was never measured, questions, settings or code "
        f"have changed, or more of the documents than `drift.training`; the sensor "
        f"`{names.name('automation')}` decides.",
    )
    def observe() -> dg.DataVersion:
        return dg.DataVersion(digest(time.time()))

    return observe


def _after(recipe: Recipe, recipes: dict[str, Recipe]) -> list[str]:
    """Return assets that trigger a recipe without being read by it."""
    if recipe.measured:
        return [MEASURING]
    after = [recipe.outside] if recipe.outside else []
    # Dagster triggers nothing when a partition is deleted; the registry triggers the assets built from all corpora.
    if not recipe.partitioned and any(recipes[dep].partitioned for dep in recipe.deps):
        after.append(REGISTRY)
    return after


def _condition(recipe: Recipe, recipes: dict[str, Recipe], names: Names) -> dg.AutomationCondition | None:
    """Return when an asset is materialised automatically: an input or its code version changed, missing or failed.

    What measures is materialised when it is time to, and not when an input changes.
    None means never. A change waits until no input is missing or in progress, and is not lost while it waits. A failed
    asset is retried once, then waits for a change. A failed blocking check does not block it: the previous artefact is
    used.
    """
    if recipe.on_demand:
        return None
    of = dg.AutomationCondition
    moved: dg.AutomationCondition = _changed(names.key(MEASURING))
    if not recipe.measured:
        moved = of.any_deps_updated().replace("newly_updated", of.data_version_changed()) | of.code_version_changed()
        unpartitioned = [names.key(dep) for dep in recipe.deps if not recipes[dep].partitioned]
        if recipe.partitioned and unpartitioned:
            # The run of another corpus has built them, and not this partition, which it should have.
            moved |= _changed(*unpartitioned) & ~of.newly_updated()
    outside = [names.key(r.outside) for r in recipes.values() if r.outside]
    outside += [names.key(MEASURING)] if recipe.measured else []
    by_corpus = [] if recipe.partitioned else [names.key(r.key) for r in recipes.values() if r.partitioned]
    # What joins a run that is requested now has not been built by the one before.
    reset = _changed(*outside, *by_corpus) | of.any_deps_match(of.will_be_requested())
    wanted = _until_requested(moved, reset) | of.newly_missing()
    wanted |= of.execution_failed().newly_true()
    ready = ~of.any_deps_missing() & ~of.any_deps_in_progress() & ~of.in_progress()
    if not recipe.partitioned:
        # A corpus whose run is about to be requested is not in progress yet; its run would replace inputs of this one.
        seen = _until_requested(_changed(*outside), _changed(*outside))
        # Only assets that join the same run "will be requested".
        ready &= ~of.any_deps_match(seen & ~of.will_be_requested())
    return wanted & ready


def _changed(*keys: dg.AssetKey) -> dg.AutomationCondition:
    """Return a condition that is true on the tick that sees a new data version of one of these upstream assets."""
    of = dg.AutomationCondition
    return of.any_deps_match(of.data_version_changed()).allow(dg.AssetSelection.assets(*keys))


def _until_requested(event: dg.AutomationCondition, elsewhere: dg.AutomationCondition) -> dg.AutomationCondition:
    """Return a condition that is true from an event until the asset is requested.

    Dagster sees a request one tick later. Events `elsewhere` in between, outside runs of the asset, count as later.
    """
    of = dg.AutomationCondition
    return event.since((of.newly_requested() & ~elsewhere) | of.initial_evaluation())
