"""From settings to Definitions: the graph, its jobs and sensor, and runs started by the command line."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg

from mog_assets import config
from mog_assets.answering import assets as answering_assets
from mog_assets.config import Settings
from mog_assets.corpus import assets as corpus_assets
from mog_assets.errors import ConfigError, MogError
from mog_assets.evaluation import assets as evaluation_assets
from mog_assets.experiments import assets as experiments_assets
from mog_assets.graph import assets as graph_assets
from mog_assets.retrieval import assets as retrieval_assets
from mog_assets.routing import assets as routing_assets
from mog_assets.topics import assets as topics_assets
from resources.recipe import CORPUS, FORCE, Recipe, Tools, as_asset, is_fresh
from resources.runs import end_killed, process_tags, readable_errors
from resources.store import atomic, digest, label, sweep_orphans

EXECUTOR_VARIABLE = "MOG_EXECUTOR"
REGISTRY = "corpus_registry"

_STAGES = (
    corpus_assets,
    retrieval_assets,
    graph_assets,
    topics_assets,
    routing_assets,
    answering_assets,
    evaluation_assets,
    experiments_assets,
)
# Module and name of the executor by the value of MOG_EXECUTOR.
_EXECUTORS = {
    "inprocess": ("dagster", "in_process_executor"),
    "multiprocess": ("dagster", "multiprocess_executor"),
    "k8s_job": ("dagster_k8s", "k8s_job_executor"),
    "ray": ("dagster_ray", "ray_executor"),
}


def graph(settings: Settings) -> dict[str, Recipe]:
    """The recipes of every stage by key, each after all that it is made from."""
    return _ordered({recipe.key: recipe for stage in _STAGES for recipe in stage.recipes(settings)})


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


def build(settings: Settings) -> dg.Definitions:
    """Definitions for some settings.

    Raises:
        ConfigError: MOG_EXECUTOR names no executor, or one that is not installed.
    """
    with warnings.catch_warnings():
        # Dagster says of its own code that it will change; users of `mog` can do nothing about that.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"dagster\.")
        return _definitions(settings)


def _definitions(settings: Settings) -> dg.Definitions:
    recipes, tools = graph(settings), Tools(settings)
    assets = [as_asset(r, recipes, tools, _after(r, recipes), _condition(r, recipes)) for r in recipes.values()]
    on_demand = [_key(r) for r in recipes.values() if r.on_demand]
    jobs = [
        dg.define_asset_job("build", dg.AssetSelection.assets(*(_key(r) for r in recipes.values() if r.partitioned))),
        dg.define_asset_job("evaluate", dg.AssetSelection.assets(*(_key(r) for r in _evaluated(recipes)))),
        *([dg.define_asset_job("experiments", dg.AssetSelection.assets(*on_demand))] if on_demand else []),
    ]
    return dg.Definitions(
        assets=[*(_outside(r, r.outside) for r in recipes.values() if r.outside), *assets],
        jobs=jobs,
        sensors=[_corpora_sensor(settings, recipes), _automation_sensor(settings)],
        schedules=_nightly(settings, jobs[1], recipes),
        resources=tools.resources(),
        executor=_executor(os.environ.get(EXECUTOR_VARIABLE) or "inprocess"),
    )


def _evaluated(recipes: dict[str, Recipe]) -> list[Recipe]:
    """What is made from all corpora, but for topics: forced, they would be fitted again and all chunks' topics move."""
    return [r for r in recipes.values() if not (r.partitioned or r.on_demand or r.group == topics_assets.GROUP)]


def _key(recipe: Recipe) -> dg.AssetKey:
    return dg.AssetKey(recipe.key.split("/"))


def _executor(name: str) -> dg.ExecutorDefinition:
    if name not in _EXECUTORS:
        raise ConfigError(f"{EXECUTOR_VARIABLE}: expected one of {', '.join(_EXECUTORS)}, got {name!r}")
    package, attribute = _EXECUTORS[name]
    try:
        return getattr(importlib.import_module(package), attribute)
    except ImportError as error:
        distribution = package.replace("_", "-")
        raise ConfigError(
            f"{EXECUTOR_VARIABLE}: expected an executor that is installed, got {name!r}, which needs the package "
            f"{distribution} ({error}): install it with `pip install {distribution}`"
        ) from error


def _outside(recipe: Recipe, name: str) -> dg.SourceAsset:
    """The external asset for what a recipe reads outside the store. Only what is observable counts when observed."""

    @dg.observable_source_asset(
        name=name,
        partitions_def=CORPUS if recipe.partitioned else None,
        group_name=recipe.group,
        description=f"What `{recipe.key}` reads outside the store, as the sensor `corpora` saw it last.",
    )
    def observe(context):  # type: ignore[no-untyped-def]  # Dagster reads the annotation, and cannot read a string
        there = context.instance.get_dynamic_partitions("corpus")
        events, _, troubles = _sweep({recipe.key: recipe}, config.load(), there, {})
        if not events:
            raise dg.Failure(description="; ".join(troubles) or f"there is no {name} yet", allow_retries=False)
        for trouble in troubles:
            context.log.warning(trouble)
        if not recipe.partitioned:
            return dg.DataVersion(str(events[0].data_version))
        return dg.DataVersionsByPartition({str(event.partition): str(event.data_version) for event in events})

    return observe


def _after(recipe: Recipe, recipes: dict[str, Recipe]) -> list[str]:
    """What a recipe follows without reading it."""
    after = [recipe.outside] if recipe.outside else []
    # Dagster fires nothing when a partition is deleted; the registry does, for what is made from all corpora.
    if not recipe.partitioned and any(recipes[dep].partitioned for dep in recipe.deps):
        after.append(REGISTRY)
    return after


def _condition(recipe: Recipe, recipes: dict[str, Recipe]) -> dg.AutomationCondition | None:
    """When an asset is materialised by itself: content above it or its code version moved, it is missing, it failed.

    None for never. A change waits until nothing above is missing or in progress, and is not forgotten meanwhile. A
    failure is tried once more, then waits for a change. Failed blocking checks stop nothing here: the previous artefact
    stands.
    """
    if recipe.on_demand:
        return None
    of = dg.AutomationCondition
    moved = of.any_deps_updated().replace("newly_updated", of.data_version_changed()) | of.code_version_changed()
    outside = [r.outside for r in recipes.values() if r.outside]
    by_corpus = [] if recipe.partitioned else [_key(r) for r in recipes.values() if r.partitioned]
    wanted = _until_requested(moved, _changed(*outside, *by_corpus)) | of.newly_missing()
    wanted |= of.execution_failed().newly_true()
    ready = ~of.any_deps_missing() & ~of.any_deps_in_progress() & ~of.in_progress()
    if not recipe.partitioned:
        # A corpus whose run is about to be requested is not in progress yet; its run would replace what is read here.
        seen = _until_requested(_changed(*outside), _changed(*outside))
        # Only what becomes part of the same run "will be requested".
        ready &= ~of.any_deps_match(seen & ~of.will_be_requested())
    return wanted & ready


def _changed(*keys: str | dg.AssetKey) -> dg.AutomationCondition:
    """True on the tick that sees another data version of one of these assets that the asset follows."""
    of = dg.AutomationCondition
    return of.any_deps_match(of.data_version_changed()).allow(dg.AssetSelection.assets(*keys))


def _until_requested(event: dg.AutomationCondition, elsewhere: dg.AutomationCondition) -> dg.AutomationCondition:
    """True from an event on until the asset is requested.

    Dagster sees a request one tick later. What happened meanwhile `elsewhere`, in no run of the asset, came after it.
    """
    of = dg.AutomationCondition
    return event.since((of.newly_requested() & ~elsewhere) | of.initial_evaluation())


def _status(settings: Settings) -> str:
    return "RUNNING" if settings.automation.enabled else "STOPPED"


def _automation_sensor(settings: Settings) -> dg.AutomationConditionSensorDefinition:
    return dg.AutomationConditionSensorDefinition(
        name="automation",
        description="Materialises what a change of corpora, question sets or settings touches: a run per corpus.",
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus(_status(settings)),
        minimum_interval_seconds=settings.automation.interval_seconds,
        emit_backfills=False,
    )


def _nightly(settings: Settings, evaluate: Any, recipes: dict[str, Recipe]) -> list[dg.ScheduleDefinition]:
    if settings.automation.nightly is None or not any(recipe.repeatable for recipe in _evaluated(recipes)):
        return []
    return [
        dg.ScheduleDefinition(
            name="nightly",
            description="Measures everything again, whether or not something changed.",
            job=evaluate,
            cron_schedule=settings.automation.nightly,
            execution_timezone=settings.automation.timezone,
            default_status=dg.DefaultScheduleStatus(_status(settings)),
            tags={FORCE: "true"},
        )
    ]


def _corpora_sensor(settings: Settings, recipes: dict[str, Recipe]) -> dg.SensorDefinition:
    @dg.sensor(
        name="corpora",
        description="Keeps partitions equal to the corpora of mog.yaml; observes what changed outside the store.",
        minimum_interval_seconds=settings.automation.interval_seconds,
        default_status=dg.DefaultSensorStatus(_status(settings)),
    )
    def corpora(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            fresh = config.load()
        except ConfigError as error:
            return dg.SkipReason(str(error))
        there = set(context.instance.get_dynamic_partitions("corpus"))
        if added := sorted(set(fresh.corpora) - there):
            # An observation of a partition that is not there yet would be lost: all are for the next tick.
            return dg.SensorResult(dynamic_partitions_requests=[CORPUS.build_add_request(added)], cursor=context.cursor)
        gone = sorted(there - set(fresh.corpora))
        events, states, troubles = _sweep(recipes, fresh, fresh.corpora, json.loads(context.cursor or "{}"))
        if fresh.model_copy(update={"corpora": settings.corpora}) != settings:
            troubles.append("mog.yaml has other settings than the loaded graph: reload the code location")
        return dg.SensorResult(
            dynamic_partitions_requests=[CORPUS.build_delete_request(gone)] if gone else [],
            asset_events=events,
            cursor=json.dumps(states, sort_keys=True),
            skip_reason="; ".join(troubles) or None,
        )

    return corpora


def _sweep(
    recipes: dict[str, Recipe], settings: Settings, corpora: Collection[str], seen: dict[str, str]
) -> tuple[list[dg.AssetObservation], dict[str, str], list[str]]:
    """Observations of what changed outside the store, its state for the next sweep, and what cannot be read."""
    events, states, troubles = [], {}, []
    for recipe in recipes.values():
        if recipe.outside is None:
            continue
        for corpus in sorted(corpora) if recipe.partitioned else [None]:
            place = label(recipe.outside, corpus)
            try:
                states[place] = digest(recipe.source(settings, corpus))
            except (MogError, OSError) as error:
                troubles.append(str(error))
                if place in seen:
                    states[place] = seen[place]
                continue
            if states[place] == seen.get(place):
                continue
            # Seen for the first time, it counts as changed: a corpus that comes back is as it was when it was removed.
            version = states[place] if place in seen else digest(states[place], time.time())
            events.append(dg.AssetObservation(recipe.outside, partition=corpus, tags={"dagster/data_version": version}))
    return events, states, troubles


def prepare_home(settings: Settings) -> Path:
    """The folder of the Dagster instance, made with the project's `dagster.yaml` where there is none."""
    home = Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster").resolve()
    home.mkdir(parents=True, exist_ok=True)
    own = Path(str(files("mog_assets"))).parent / "dagster.yaml"
    if not (home / "dagster.yaml").exists():
        with atomic(home / "dagster.yaml") as temporary:
            temporary.write_bytes(own.read_bytes() if own.exists() else b"")
    return home


@contextlib.contextmanager
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of the home folder (or of DAGSTER_HOME), its partitions those of the settings."""
    home = prepare_home(settings)
    with readable_errors(home), dg.DagsterInstance.from_config(str(home)) as opened:
        there = set(opened.get_dynamic_partitions("corpus"))
        opened.add_dynamic_partitions("corpus", sorted(set(settings.corpora) - there))
        yield opened


@dataclass
class Report:
    """What a run came to.

    Attributes:
        steps: Per materialised artefact: asset, corpus, seconds (0 where it was up to date), what was recomputed.
        failures: What went wrong, a sentence each.
    """

    steps: list[dict[str, object]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def selected(settings: Settings, recipes: dict[str, Recipe], select: Sequence[str]) -> set[str]:
    """Keys of the assets that a selection names: asset keys, groups, or Dagster's selection syntax.

    Raises:
        ConfigError: it names nothing.
    """
    if not select:
        return {key for key, recipe in recipes.items() if not recipe.on_demand}
    graph_of_assets = build(settings).resolve_asset_graph()
    keys: set[str] = set()
    for text in select:
        if text in recipes:
            keys.add(text)
            continue
        try:
            found = dg.AssetSelection.from_string(text).resolve(graph_of_assets)
        except Exception as error:  # Dagster raises several classes for text it cannot read or resolve.
            raise ConfigError(f"--select: expected an asset or a selection of assets, got {text!r}") from error
        names = {"/".join(key.path) for key in found} & set(recipes)
        if not names:
            known = ", ".join(recipes)
            raise ConfigError(f"--select: expected one of {known}, or a selection of assets, got {text!r}")
        keys |= names
    return keys


def needed(recipes: dict[str, Recipe], keys: Collection[str]) -> list[str]:
    """Some assets and all that they are made from, in order."""
    wanted = set(keys)
    for key in reversed(recipes):
        wanted |= set(recipes[key].deps) if key in wanted else set()
    return [key for key in recipes if key in wanted]


def stale(
    tools: Tools, recipes: dict[str, Recipe], keys: set[str], corpora: Sequence[str]
) -> dict[str | None, list[str]]:
    """What has to be materialised, by corpus (None: assets of all corpora): the stale, and all that follows."""
    plan: dict[str | None, list[str]] = {}
    doubtful: set[tuple[str, str | None]] = set()
    for recipe in recipes.values():
        for corpus in corpora if recipe.partitioned else [None]:
            above = [
                (dep, c)
                for dep in recipe.deps
                for c in (corpora if recipes[dep].partitioned and corpus is None else [corpus])
            ]
            above = [(dep, c if recipes[dep].partitioned else None) for dep, c in above]
            if any(a in doubtful for a in above) or not is_fresh(recipe, corpus, tools, recipes):
                doubtful.add((recipe.key, corpus))
                if recipe.key in keys:
                    plan.setdefault(corpus, []).append(recipe.key)
    return plan


def _phases(recipes: dict[str, Recipe]) -> dict[str, int]:
    """When an asset's turn is: those of a corpus by turns with those of all corpora, each after all it is made from."""
    phases: dict[str, int] = {}
    for recipe in recipes.values():
        above = [phases[dep] + (recipes[dep].partitioned != recipe.partitioned) for dep in recipe.deps]
        phases[recipe.key] = max([0 if recipe.partitioned else 1, *above])
    return phases


def _waits(
    recipe: Recipe, corpus: str | None, recipes: dict[str, Recipe], undone: Collection[tuple[str, str | None]]
) -> bool:
    """Whether something that an asset is made from should have been made before, and was not."""
    for dep in recipe.deps:
        if recipes[dep].partitioned and corpus is None:
            if any(key == dep for key, _ in undone):
                return True
        elif (dep, corpus if recipes[dep].partitioned else None) in undone:
            return True
    return False


def run(
    settings: Settings, corpora: Sequence[str] = (), select: Sequence[str] = (), force: Collection[str] = ()
) -> Report:
    """Materialise what is stale, in this process: corpora one after the other, then what is made from all of them.

    What fails keeps nothing from being made but what is made from it.

    Args:
        settings: Of the project.
        corpora: Only these corpora; all where there are none.
        select: Only these assets, or selections of them.
        force: Assets that are made again although they are up to date.
    """
    unknown = [name for name in corpora if name not in settings.corpora]
    if unknown:
        raise ConfigError(f"--corpus: expected one of {', '.join(settings.corpora)}, got {unknown[0]!r}")
    recipes, tools, report = graph(settings), Tools(settings), Report()
    keys, named = selected(settings, recipes, select), list(corpora or settings.corpora)
    repeatable = [key for key, recipe in recipes.items() if recipe.repeatable]
    if unknown := [key for key in force if key not in repeatable]:
        raise ConfigError(f"--force: expected one of {', '.join(repeatable)}, got {unknown[0]!r}")
    plan = stale(tools, recipes, keys, named)
    for key in force:
        # The check above leaves assets of all corpora.
        if key not in plan.setdefault(None, []):
            plan[None].append(key)
    if not plan:
        return report
    definitions = build(settings)
    with instance(settings) as opened:
        end_killed(opened)
        sweep_orphans(settings.home / "cache")
        # What belongs to removed corpora goes first, and does not wait for corpora that fail.
        if REGISTRY in plan.get(None, ()):
            _execute(definitions, opened, tools, [REGISTRY], None, report)
            plan[None].remove(REGISTRY)
        undone: set[tuple[str, str | None]] = set()
        phases = _phases(recipes)
        for phase in range(max(phases.values()) + 1):
            # What all corpora are made into may have come out as it was: a topic model that is kept touches no chunk.
            plan = stale(tools, recipes, keys, named) if phase > 1 and not force else plan
            for corpus, stale_keys in plan.items():
                planned = [key for key in stale_keys if phases[key] == phase]
                due = [key for key in planned if not _waits(recipes[key], corpus, recipes, undone)]
                waiting = [c for c in settings.corpora if tools.store.find("documents", c) is None]
                if due and corpus is None and waiting and not select:
                    if not report.failures:
                        names = ", ".join(waiting)
                        report.failures.append(f"what is made from all corpora waits for {names}: run `mog run`")
                    due = []
                tags = {FORCE: "true"} if set(force) & set(due) else {}
                done = _execute(definitions, opened, tools, due, corpus, report, tags) if due else set()
                undone |= {(key, corpus) for key in planned if key not in done}
    return report


def experiment(settings: Settings, keys: Sequence[str]) -> Report:
    """Materialise assets that are made on demand, and what is stale of all that they are made from.

    Args:
        settings: Of the project.
        keys: Of the assets.
    """
    return run(settings, select=needed(graph(settings), keys))


def up_to_date(settings: Settings, keys: Sequence[str]) -> dict[str, str]:
    """State of assets of all corpora: `up to date`, `stale`, or `never done`."""
    recipes, tools = graph(settings), Tools(settings)
    doubtful = stale(tools, recipes, set(recipes), list(settings.corpora)).get(None, [])
    return {
        key: "never done" if tools.store.find(key) is None else "stale" if key in doubtful else "up to date"
        for key in keys
    }


def _execute(
    definitions: dg.Definitions,
    opened: dg.DagsterInstance,
    tools: Tools,
    keys: list[str],
    corpus: str | None,
    report: Report,
    tags: dict[str, str] | None = None,
) -> set[str]:
    """Materialise some assets in one Dagster run; returns those that were."""
    job = definitions.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=opened,
        asset_selection=[dg.AssetKey(key.split("/")) for key in keys],
        partition_key=corpus,
        raise_on_error=False,
        tags={**process_tags(), **(tags or {})},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            failure = event.step_failure_data.user_failure_data
            cause = failure.description if failure else None
            if cause is None and error is not None:
                inner = error
                while inner.cause is not None:
                    inner = inner.cause
                cause = " ".join(inner.message.split())
            report.failures.append(cause or f"step {event.step_key} failed")
    if not result.success and not report.failures:
        report.failures.append(f"the run of {label('the graph', corpus)} failed: see the Dagster UI (`mog ui`)")
    for event in result.get_asset_materialization_events():
        key = "/".join(event.asset_key.path) if event.asset_key else ""
        metadata = event.step_materialization_data.materialization.metadata
        report.steps.append(
            {
                "asset": key,
                "corpus": corpus,
                "seconds": metadata["seconds to build"].value if metadata["built now"].value else 0.0,
                "recomputed": metadata["recomputed"].value,
            }
        )
    return {"/".join(event.asset_key.path) for event in result.get_asset_materialization_events() if event.asset_key}
