"""Start runs: a sensor that observes and evaluates automation conditions, and the nightly schedule."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from mog_assets.build.materialising import made_from
from mog_assets.build.measuring import basis, read_documents
from mog_assets.build.names import Names
from mog_assets.build.plan import is_settled, time_to_measure
from mog_assets.build.recipe import FORCE, JOINED, MEASURING, Recipe
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
    """Return assets of all corpora that are built unasked, except those that stay as they are."""
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


class AutomationSensor(dg.AutomationConditionSensorDefinition):
    """Observes what lies outside the store, then evaluates the conditions of assets, if anything has happened.

    It does both in the process that has loaded the graph. To evaluate conditions takes half a second.
    """

    def __init__(self, *, settings: Settings, host: Host, recipes: dict[str, Recipe], **options: Any) -> None:
        super().__init__(use_user_code_server=True, emit_backfills=False, **options)
        self._settings, self._host, self._recipes, self._options = settings, host, recipes, options
        self._evaluated: tuple[Any, ...] = ()
        self._tools: Tools | None = None

    def evaluate_tick(self, context: dg.SensorEvaluationContext) -> Any:
        """Return the runs that conditions ask for; nothing, with the reason, if they cannot have changed."""
        instance = _records(context)
        if not context.cursor:
            # Conditions take what they see first as known.
            outcome = super().evaluate_tick(context)
            self.look(instance, anew=True)
            return outcome
        _, troubles = self.look(instance)
        state = self._state(instance)
        # Runs that the daemon has not noted are asked for again.
        if state is not None and (context.cursor, *state) == self._evaluated:
            return self._skipped(context, "; ".join(troubles) or "Nothing has happened since the last evaluation.")
        if instance.get_runs(dg.RunsFilter(statuses=UNFINISHED, tags={JOINED: self.name}), limit=1):
            reason = "What has changed waits for a run of all that follows from an earlier change."
            return self._skipped(context, "; ".join([*troubles, reason]))
        outcome = super().evaluate_tick(context)
        self._evaluated = (outcome.cursor, *(state or ()))
        return outcome

    def resolve_run_requests(self, run_requests: Sequence[dg.RunRequest], context: Any, *others: Any) -> Any:
        """Resolve requested runs; that of the only corpus that changed also makes what follows from it."""
        return super().resolve_run_requests(self._joined(run_requests, _records(context)), context, *others)

    def with_attributes(self, **changes: Any) -> AutomationSensor:
        """Return the sensor with other metadata, as a project does that merges definitions."""
        changes = {name: value for name, value in changes.items() if name != "jobs" and value is not None}
        options = {**self._options, **changes}
        return AutomationSensor(settings=self._settings, host=self._host, recipes=self._recipes, **options)

    def look(self, instance: dg.DagsterInstance, anew: bool = False) -> tuple[list[dg.AssetObservation], list[str]]:
        """Tell Dagster of corpora that were added or removed, of changes outside the store, and of the time to measure.

        Args:
            instance: Dagster's records.
            anew: Whether all that is seen counts as changed.

        Returns:
            What was observed, and errors of what could not be.
        """
        recipes, host = self._recipes, self._host
        try:
            settings = host.load()
        except ConfigError as error:
            return [], [str(error)]
        if host.alone:
            end_killed(instance)
        partitions = host.names.name("corpus")
        present = set(instance.get_dynamic_partitions(partitions))
        if added := sorted(set(settings.corpora) - present):
            instance.add_dynamic_partitions(partitions, added)
        for corpus in sorted(present - set(settings.corpora)):
            instance.delete_dynamic_partition(partitions, corpus)
        place = f"mog/{self.name}"
        before = instance.daemon_cursor_storage.get_cursor_values({place}).get(place, "{}")
        seen = {} if anew else json.loads(before)
        events, states, troubles = sweep(recipes, settings, settings.corpora, seen, host.names)
        if any(recipe.measured for recipe in recipes.values()):
            previous = seen.get(MEASURING, "")
            try:
                states[MEASURING] = _time_to_measure(instance, recipes, self._opened(settings), previous, host.names)
            except (MogError, OSError) as error:
                # What corpora have is observed all the same.
                states[MEASURING] = previous
                troubles.append(str(error))
            if states[MEASURING] not in ("", previous):
                events.append(_observation(host.names.key(MEASURING), digest(states[MEASURING], time.time())))
        for event in events:
            instance.report_runless_asset_event(event)
        if (after := json.dumps(states, sort_keys=True)) != before:
            instance.daemon_cursor_storage.set_cursor_values({place: after})
        if settings.model_copy(update={"corpora": self._settings.corpora}) != self._settings:
            troubles.append("mog.yaml has changed since the graph was loaded: reload the code location")
        return events, troubles

    def _opened(self, settings: Settings) -> Tools:
        """Return the resources for some settings; they know the manifests that they have read."""
        if self._tools is None or self._tools.settings != settings:
            self._tools = Tools(settings)
        return self._tools

    def _skipped(self, context: dg.SensorEvaluationContext, reason: str) -> Any:
        return dg.SensorDefinition(name=self.name, evaluation_fn=lambda _: dg.SkipReason(reason)).evaluate_tick(context)

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

    def _joined(self, requests: Sequence[dg.RunRequest], instance: dg.DagsterInstance) -> Sequence[dg.RunRequest]:
        """Add what is made from all corpora to the run of the only corpus that changed.

        A search needs both, and a run of its own would start when the other has ended. Where several corpora change,
        they have a run each, and what is made from all waits for them, as it does for other runs that go on.
        """
        of_corpora = [request for request in requests if request.partition_key]
        if len(of_corpora) != 1 or _unfinished(instance, self._recipes, self._host.names, measured=False):
            return requests
        try:
            tools = self._opened(self._host.load())
        except ConfigError:
            return requests
        name, (own,), more = self._host.names.key, of_corpora, set[str]()
        selected = {key for key in self._recipes if name(key) in (own.asset_selection or ())}
        find, corpora = tools.store.find, list(tools.settings.corpora)
        for recipe in self._recipes.values():
            if recipe.partitioned or recipe.measured or recipe.on_demand or not selected.intersection(recipe.deps):
                continue
            above = made_from(recipe, None, self._recipes, corpora)
            if all(
                key in selected and corpus in (None, own.partition_key) or find(key, corpus) for key, corpus in above
            ):
                selected.add(recipe.key)
                more.add(recipe.key)
        if not more:
            return requests
        added = [name(key) for key in sorted(more)]
        keys, tags = [*(own.asset_selection or ()), *added], {**own.tags, JOINED: self.name}
        result = [own.with_replaced_attrs(asset_selection=keys, tags=tags)]
        for request in (one for one in requests if one is not own):
            if left := [key for key in request.asset_selection or () if key not in added]:
                result.append(request.with_replaced_attrs(asset_selection=left))
        return result


def automation_sensor(
    settings: Settings, target: dg.AssetSelection, recipes: dict[str, Recipe], host: Host
) -> AutomationSensor:
    """Return what starts runs by itself."""
    return AutomationSensor(
        settings=settings,
        host=host,
        recipes=recipes,
        name=host.names.name("automation"),
        description="Keeps partitions in sync with the corpora of mog.yaml, observes changes outside the store, and "
        "materialises assets that are affected by them: a run per corpus.",
        target=target,
        default_status=dg.DefaultSensorStatus(_status(settings)),
        minimum_interval_seconds=settings.automation.interval_seconds,
        run_tags=settings.automation.run_tags,
    )


def nightly(settings: Settings, evaluate: Any, recipes: dict[str, Recipe], names: Names) -> list[dg.ScheduleDefinition]:
    """Return the nightly evaluation; none if it is switched off, or if there is nothing to do again."""
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


def _time_to_measure(
    instance: dg.DagsterInstance, recipes: dict[str, Recipe], tools: Tools, seen: str, names: Names
) -> str:
    """Return a digest of why it is time to measure, empty if it is not; while the index changes, that of before.

    It differs when there is a further reason, so that what failed is tried again.
    """
    if _unfinished(instance, recipes, names, measured=True):
        return seen
    if not is_settled(tools, recipes):
        return seen
    if not (why := time_to_measure(tools, recipes)):
        return ""
    follows = [place for place, reason in why.items() if reason == "changed"]
    keys = [key for key, recipe in recipes.items() if recipe.measured]
    return digest(follows, read_documents(tools, tools.store.find), basis(keys, recipes, tools))


def _unfinished(
    instance: dg.DagsterInstance, recipes: dict[str, Recipe], names: Names, measured: bool
) -> list[dg.DagsterRun]:
    """Return the runs that go on and build assets that measure, or others."""
    of_kind = [recipe for recipe in recipes.values() if recipe.measured == measured]
    keys = {names.key(recipe.key) for recipe in of_kind}
    # A run of a whole job selects no assets; other jobs of a project that the graph is in may always run.
    named = ["evaluate", *([] if measured else ["build"]), *(recipe.job for recipe in of_kind if recipe.job)]
    jobs = set(map(names.name, named))
    runs = instance.get_runs(dg.RunsFilter(statuses=UNFINISHED))
    return [r for r in runs if (r.job_name in jobs if r.asset_selection is None else keys & r.asset_selection)]


def sweep(
    recipes: dict[str, Recipe], settings: Settings, corpora: Collection[str], seen: dict[str, str], names: Names
) -> tuple[list[dg.AssetObservation], dict[str, str], list[str]]:
    """Return observations of changes outside the store, its next state, and errors of unreadable sources."""
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
