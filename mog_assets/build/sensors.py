"""What starts runs: the sensors of corpora and of automation conditions, and the nightly schedule."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import dagster as dg

from mog_assets.build.measuring import basis, read_documents
from mog_assets.build.names import Names
from mog_assets.build.plan import is_settled, time_to_measure
from mog_assets.build.recipe import FORCE, MEASURING, Recipe
from mog_assets.build.records import UNFINISHED, end_killed
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.config import load as load_settings
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.store import digest, label

# Conditions are evaluated at least that often.
_SECONDS = 600


@dataclass(frozen=True)
class Host:
    """The Dagster project that the graph is in.

    Attributes:
        names: What the parts of the graph are called there.
        load: Reads the settings again, on every tick of the sensor.
        alone: Whether the project holds nothing else, so that the graph also chooses the executor and ends killed runs.
    """

    names: Names = Names()
    load: Callable[[], Settings] = load_settings
    alone: bool = True


def evaluated(recipes: dict[str, Recipe]) -> list[Recipe]:
    """Assets of all corpora that are built unasked, except those that stay as they are."""
    return [r for r in recipes.values() if not (r.partitioned or r.on_demand or r.steady)]


def _status(settings: Settings) -> str:
    return "RUNNING" if settings.automation.enabled else "STOPPED"


def _records(context: dg.SensorEvaluationContext) -> dg.DagsterInstance:
    """Return Dagster's records. To open them takes longer than a tick that finds nothing, so they stay open."""
    reference = context.instance_ref
    return context.instance if reference is None else _opened(dg.serialize_value(reference))


@functools.lru_cache(maxsize=1)
def _opened(reference: str) -> dg.DagsterInstance:
    unpacked: Any = dg.deserialize_value(reference)
    return dg.DagsterInstance.from_ref(unpacked)


class ConditionSensor(dg.AutomationConditionSensorDefinition):
    """Evaluates the conditions of assets, which takes half a second, once something has happened.

    It does so in the process that has loaded the graph.
    """

    def __init__(self, *, host: Host, recipes: dict[str, Recipe], **options: Any) -> None:
        super().__init__(use_user_code_server=True, emit_backfills=False, **options)
        self._host, self._recipes, self._options = host, recipes, options
        self._evaluated: tuple[Any, ...] = ()
        nothing = dg.SkipReason("Nothing has happened since the last evaluation.")
        self._quiet = dg.SensorDefinition(name=self.name, evaluation_fn=lambda _: nothing)

    def evaluate_tick(self, context: dg.SensorEvaluationContext) -> Any:
        """Return the runs that conditions ask for; nothing, with the reason, if they cannot have changed."""
        state = self._state(_records(context))
        # Runs that the daemon has not noted are asked for again.
        if state is not None and (context.cursor, *state) == self._evaluated:
            return self._quiet.evaluate_tick(context)
        outcome = super().evaluate_tick(context)
        if not context.cursor:
            # Conditions take what they see first as known, so that what was observed before would be lost.
            _observe_anew(_records(context), self._recipes, self._host)
        self._evaluated = (outcome.cursor, *(state or ()))
        return outcome

    def with_attributes(self, **changes: Any) -> ConditionSensor:
        """Return the sensor with other metadata, as a project does that merges definitions."""
        changes = {name: value for name, value in changes.items() if name != "jobs" and value is not None}
        return ConditionSensor(host=self._host, recipes=self._recipes, **{**self._options, **changes})

    def _state(self, instance: dg.DagsterInstance) -> tuple[Any, ...] | None:
        """Return what changes with all that conditions look at: events of assets, runs, partitions; None if unknown."""
        try:
            events = instance.event_log_storage.get_maximum_record_id()
        except NotImplementedError:
            return None
        runs = instance.get_run_records(limit=1, order_by="update_timestamp")
        latest = [(run.dagster_run.run_id, run.dagster_run.status, run.update_timestamp) for run in runs]
        # The last is for what else there may be.
        return (
            events,
            latest,
            sorted(instance.get_dynamic_partitions(self._host.names.name("corpus"))),
            time.time() // _SECONDS,
        )


def automation_sensor(
    settings: Settings, target: dg.AssetSelection, recipes: dict[str, Recipe], host: Host
) -> ConditionSensor:
    """Return what starts runs where automation conditions are met."""
    return ConditionSensor(
        host=host,
        recipes=recipes,
        name=host.names.name("automation"),
        description="Materialises assets affected by changes of corpora, question sets or settings: a run per corpus.",
        target=target,
        default_status=dg.DefaultSensorStatus(_status(settings)),
        minimum_interval_seconds=settings.automation.interval_seconds,
        run_tags=settings.automation.run_tags,
    )


def nightly(settings: Settings, evaluate: Any, recipes: dict[str, Recipe], names: Names) -> list[dg.ScheduleDefinition]:
    """The nightly evaluation; none if it is switched off, or if there is nothing to do again."""
    if settings.automation.nightly is None or not any(recipe.repeatable for recipe in evaluated(recipes)):
        return []
    return [
        dg.ScheduleDefinition(
            name=names.name("nightly"),
            description="Counts term statistics anew and measures everything again, even if nothing changed.",
            job=evaluate,
            cron_schedule=settings.automation.nightly,
            execution_timezone=settings.automation.timezone,
            default_status=dg.DefaultScheduleStatus(_status(settings)),
            tags={**settings.automation.run_tags, FORCE: "true"},
        )
    ]


def corpora_sensor(settings: Settings, recipes: dict[str, Recipe], host: Host) -> dg.SensorDefinition:
    """What notices that corpora were added or removed."""
    partitions = host.names.corpora

    @dg.sensor(
        name=host.names.name("corpora"),
        description="Keeps partitions in sync with the corpora of mog.yaml; observes changes outside the store.",
        minimum_interval_seconds=settings.automation.interval_seconds,
        default_status=dg.DefaultSensorStatus(_status(settings)),
    )
    def corpora(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            fresh = host.load()
        except ConfigError as error:
            return dg.SkipReason(str(error))
        instance = _records(context)
        if host.alone:
            end_killed(instance)
        present = set(instance.get_dynamic_partitions(host.names.name("corpus")))
        if added := sorted(set(fresh.corpora) - present):
            # An observation of a partition that does not exist yet would be lost, so all wait for the next tick.
            return dg.SensorResult(
                dynamic_partitions_requests=[partitions.build_add_request(added)], cursor=context.cursor
            )
        gone = sorted(present - set(fresh.corpora))
        events, states, troubles = sweep(recipes, fresh, fresh.corpora, json.loads(context.cursor or "{}"), host.names)
        if any(recipe.measured for recipe in recipes.values()):
            place, seen = label(MEASURING, None), json.loads(context.cursor or "{}").get(MEASURING, "")
            try:
                states[place] = _time_to_measure(instance, recipes, fresh, seen, host.names)
            except (MogError, OSError) as error:
                # What corpora have is observed all the same.
                states[place] = seen
                troubles.append(str(error))
            if states[place] not in ("", seen):
                events.append(_observation(host.names.key(MEASURING), digest(states[place], time.time())))
        if fresh.model_copy(update={"corpora": settings.corpora}) != settings:
            troubles.append("mog.yaml has changed since the graph was loaded: reload the code location")
        return dg.SensorResult(
            dynamic_partitions_requests=[partitions.build_delete_request(gone)] if gone else [],
            asset_events=events,
            cursor=json.dumps(states, sort_keys=True),
            skip_reason="; ".join(troubles) or None,
        )

    return corpora


def _time_to_measure(
    instance: dg.DagsterInstance, recipes: dict[str, Recipe], settings: Settings, seen: str, names: Names
) -> str:
    """Return a digest of why it is time to measure, empty if it is not; while the index changes, that of before.

    It differs when there is a further reason, so that what failed is tried again.
    """
    measured = {names.key(key) for key, recipe in recipes.items() if recipe.measured}
    # A run of a whole job selects no assets; other jobs of a project that the graph is in may always run.
    jobs = {names.name(job) for job in ("evaluate", *(r.job for r in recipes.values() if r.measured and r.job))}
    for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)):
        if run.job_name in jobs if run.asset_selection is None else measured & run.asset_selection:
            return seen
    tools = Tools(settings)
    if not is_settled(tools, recipes):
        return seen
    if not (why := time_to_measure(tools, recipes)):
        return ""
    follows = [place for place, reason in why.items() if reason == "changed"]
    keys = [key for key, recipe in recipes.items() if recipe.measured]
    return digest(follows, read_documents(tools, tools.store.find), basis(keys, recipes, tools))


def _observe_anew(instance: dg.DagsterInstance, recipes: dict[str, Recipe], host: Host) -> None:
    """Report all that lies outside the store as changed, and the time to measure, if it has come."""
    try:
        settings = host.load()
    except ConfigError:
        # The other sensor reports it.
        return
    present = set(instance.get_dynamic_partitions(host.names.name("corpus"))).intersection(settings.corpora)
    events, _, _ = sweep(recipes, settings, present, {}, host.names)
    try:
        if any(recipe.measured for recipe in recipes.values()) and time_to_measure(Tools(settings), recipes):
            events.append(_observation(host.names.key(MEASURING), digest(time.time())))
    except (MogError, OSError):
        # The other sensor reports it, and observes this when it is mended.
        pass
    for event in events:
        instance.report_runless_asset_event(event)


def sweep(
    recipes: dict[str, Recipe], settings: Settings, corpora: Collection[str], seen: dict[str, str], names: Names
) -> tuple[list[dg.AssetObservation], dict[str, str], list[str]]:
    """Observations of changes outside the store, its state for the next sweep, and errors of unreadable sources."""
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
            # A source seen for the first time counts as changed: a corpus may return with the state it had before.
            version = states[place] if place in seen else digest(states[place], time.time())
            events.append(_observation(names.key(recipe.outside), version, corpus))
    return events, states, troubles


def _observation(key: dg.AssetKey, version: str, partition: str | None = None) -> dg.AssetObservation:
    return dg.AssetObservation(key, partition=partition, tags={"dagster/data_version": version})
