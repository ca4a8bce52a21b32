"""Dagster's daemon, in this process."""

import os
from types import SimpleNamespace

import dagster as dg

from mog_assets import config
from mog_assets.build import automation, runner
from mog_assets.build.tools import Tools


class Daemon:
    """Ticks of the sensor on an instance, and the runs that they ask for, one a partition, in this process."""

    def __init__(self, folder, cursor=None):
        self.folder, self.cursor, self.tags = folder, cursor, {}
        os.environ[config.CONFIG_VARIABLE] = str(folder / "mog.yaml")
        self.instance = dg.DagsterInstance.from_config(str(runner.prepare_home(config.load())))
        self.reload()

    def reload(self):
        """Load the graph anew, as a code location does."""
        self.definitions = automation.build(config.load())
        self.sensor = self.definitions.resolve_sensor_def("automation")

    def sweep(self):
        """One look of the sensor at what lies outside the store; what it says about what it skipped."""
        before = self.instance.get_dynamic_partitions("corpus")
        events, troubles = self.sensor.look(self.instance)
        observed = [(event.asset_key.to_user_string(), event.partition) for event in events]
        changed = bool(observed) or self.instance.get_dynamic_partitions("corpus") != before
        return SimpleNamespace(observed=observed, changed=changed, said="; ".join(troubles) or None)

    def tick(self):
        """One tick of the sensor: assets by partition, a run each, first that of all corpora."""
        with dg.build_sensor_context(self.instance, self.cursor, definitions=self.definitions) as context:
            outcome = self.sensor.evaluate_tick(context)
        self.cursor = outcome.cursor
        self.tags = {one.partition_key: one.tags for one in outcome.run_requests}
        wanted = [
            (one.partition_key, {key.to_user_string() for key in one.asset_selection}) for one in outcome.run_requests
        ]
        return sorted(wanted, key=lambda item: item[0] or "")

    def tools(self):
        """Store and vector store of the project."""
        return Tools(config.load())

    def execute(self, partition, assets, tags=None):
        """A run as a worker does it, on definitions that it loads itself."""
        job = automation.build(config.load()).resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey(key.split("/")) for key in assets],
            partition_key=partition,
            tags=tags or self.tags.get(partition),
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
        done = {}
        for event in result.get_asset_materialization_events():
            metadata = event.step_materialization_data.materialization.metadata
            done[event.asset_key.to_user_string()] = sum(metadata["recomputed"].value.values())
        failures = [e.step_failure_data.error for e in result.all_events if e.is_step_failure]
        return SimpleNamespace(partition=partition, assets=assets, success=result.success, done=done, failures=failures)

    def settle(self, rounds=12):
        """Sweep, tick and run until nothing is seen and nothing asked for: the runs."""
        runs = []
        for _ in range(rounds):
            # The first tick looks only when it has evaluated conditions.
            swept = SimpleNamespace(changed=True) if self.cursor is None else self.sweep()
            wanted = self.tick()
            if not wanted and not swept.changed:
                return runs
            runs += [self.execute(partition, assets) for partition, assets in wanted]
        raise AssertionError(f"still asking for runs after {rounds} ticks: {[(r.partition, r.success) for r in runs]}")
