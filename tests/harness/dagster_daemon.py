"""Dagster's daemon, in this process."""

import os
from collections import defaultdict
from functools import cache
from types import SimpleNamespace

import dagster as dg
import pytest

from mog_assets import config
from mog_assets.build import automation, runner
from mog_assets.build.tools import Tools


class Daemon:
    """Sensor and automation ticks on an instance, and the runs that they ask for, one a partition, in this process."""

    def __init__(self, folder, sensor_cursor=None, cursor=None):
        self.folder = folder
        self.sensor_cursor, self.cursor = sensor_cursor, cursor
        os.environ[config.CONFIG_VARIABLE] = str(folder / "mog.yaml")
        self.instance = dg.DagsterInstance.from_config(str(runner.prepare_home(config.load())))
        self.reload()

    def reload(self):
        """Load the graph anew, as a code location does."""
        self.definitions = automation.build(config.load())

    def sweep(self):
        """One tick of the sensor; what it says about what it skipped."""
        sensor = self.definitions.get_sensor_def("corpora")
        with dg.build_sensor_context(instance=self.instance, cursor=self.sensor_cursor) as context:
            result = sensor(context)
        if isinstance(result, dg.SkipReason):
            return SimpleNamespace(observed=[], changed=False, said=result.skip_message)
        assert not result.run_requests
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        for request in result.dynamic_partitions_requests or ():
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                self.instance.add_dynamic_partitions("corpus", request.partition_keys)
            else:
                for name in request.partition_keys:
                    self.instance.delete_dynamic_partition("corpus", name)
        self.sensor_cursor = result.cursor
        observed = [(event.asset_key.to_user_string(), event.partition) for event in result.asset_events]
        changed = bool(observed or result.dynamic_partitions_requests)
        said = result.skip_reason.skip_message if result.skip_reason else None
        return SimpleNamespace(observed=observed, changed=changed, said=said)

    def tick(self):
        """One tick of the automation sensor: assets by partition, a run each, first that of all corpora."""
        # As the daemon does, for a tick: without it a tick asks the database for them a thousand times.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.instance, "get_dynamic_partitions", cache(self.instance.get_dynamic_partitions))
            result = dg.evaluate_automation_conditions(self.definitions, self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        wanted = defaultdict(set)
        for found in result.results:
            for partition in found.true_subset.expensively_compute_asset_partitions():
                wanted[partition.partition_key].add(partition.asset_key.to_user_string())
        return sorted(wanted.items(), key=lambda item: item[0] or "")

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
            tags=tags,
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
            swept, wanted = self.sweep(), self.tick()
            if not wanted and not swept.changed:
                return runs
            runs += [self.execute(partition, assets) for partition, assets in wanted]
        raise AssertionError(f"still asking for runs after {rounds} ticks: {[(r.partition, r.success) for r in runs]}")
