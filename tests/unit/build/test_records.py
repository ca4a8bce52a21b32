"""What a start of `mog ui`, and the sensor, do about runs of Dagster whose process was killed."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest
from shared import ROOT

from mog_assets import config
from mog_assets.build import automation, records, runner
from mog_assets.build.plan import graph

HOLD = """
import sys, time, dagster as dg
from mog_assets.build import records
with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    records.hold(instance, sys.argv[2])
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def opened(make_project, write_documents, tmp_path, monkeypatch):
    """The Dagster instance of a project of one document."""
    write_documents(tmp_path / "a.jsonl", [("heron", "The heron waits.")])
    project = make_project(tmp_path, {"corpora": {"a": {"path": "a.jsonl"}}})
    monkeypatch.setenv(config.CONFIG_VARIABLE, str(project.config))
    with runner.instance(project.settings) as instance:
        instance.settings = project.settings
        yield instance


def run_of(instance, name, status="STARTED"):
    instance.add_run(dg.DagsterRun("job", run_id=name, status=dg.DagsterRunStatus[status]))
    return name


def status(instance, name):
    return instance.get_run_by_id(name).status.value


def worker(instance, name):
    """A process that executes a run, as one that a code server starts."""
    arguments = [sys.executable, "-c", HOLD, instance.root_directory, name]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    return process


def test_runs_whose_process_is_gone_end_and_others_are_left_alone(opened):
    dead, alive = (worker(opened, run_of(opened, name)) for name in ("dead", "alive"))
    with ExitStack() as stack:
        stack.callback(alive.wait)
        stack.callback(alive.kill)
        stack.callback(dead.wait)
        # Another machine of the same database executes it, or nobody has begun to.
        run_of(opened, "elsewhere")
        assert records.end_killed(opened) == []
        dead.kill()
        dead.wait()
        automation.build(opened.settings).resolve_sensor_def("automation").look(opened)
        assert [status(opened, name) for name in ("dead", "alive", "elsewhere")] == ["FAILURE", "STARTED", "STARTED"]
        opened.report_run_canceled(opened.get_run_by_id("alive"))
    # It ended by itself.
    assert records.end_killed(opened) == []
    assert status(opened, "alive") == "CANCELED"
    # Nothing of them is left.
    assert [*Path(opened.root_directory).glob("running/*")] == []


def the_job():
    return automation.build(config.load()).resolve_job_def("build")


def test_the_process_that_executes_a_run_holds_its_lock_file(opened):
    job = dg.reconstructable(the_job)
    tags = {"dagster/partition": "a"}
    done = dg.execute_job(job, opened, asset_selection=[dg.AssetKey("documents")], tags=tags)
    assert done.success
    (lock,) = Path(opened.root_directory).glob("running/*")
    assert lock.name == done.run_id
    assert records.end_killed(opened) == [] and lock.exists()


def test_what_a_run_builds_is_in_the_records_of_dagster_with_its_data_version(opened):
    report = runner.run(opened.settings, select=["chunks/level_1"])
    assert report.failures == [] and [step["asset"] for step in report.steps] == ["documents", "chunks/level_1"]
    event = opened.get_latest_materialization_event(dg.AssetKey(["chunks", "level_1"])).asset_materialization
    artefact = runner.Tools(opened.settings).store.read("chunks/level_1", "a")
    assert event.partition == "a" and event.tags["dagster/data_version"] == artefact.manifest.version
    assert event.metadata["why"].value == "new"
    assert opened.get_runs() == []


def test_pools_have_their_limit_before_there_is_a_run(opened):
    limits = {pool.name: pool.limit for pool in opened.event_log_storage.get_pool_limits()}
    pools = {recipe.pool for recipe in graph(opened.settings).values() if recipe.pool}
    assert "gpu" in pools and limits == dict.fromkeys(pools, 1)
    # Who allows more in the UI keeps that.
    opened.event_log_storage.set_concurrency_slots("gpu", 3)
    with runner.instance(opened.settings) as again:
        limits = {pool.name: pool.limit for pool in again.event_log_storage.get_pool_limits()}
    assert limits == {**dict.fromkeys(pools, 1), "gpu": 3}
