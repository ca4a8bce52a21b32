"""What a start of `mog run` or `mog ui`, and the sensor, do about runs whose process was killed."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from shared import ROOT

from mog_assets import config
from mog_assets.build import automation, records, runner

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
    """The Dagster instance of a project of one document, with a pool."""
    write_documents(tmp_path / "a.jsonl", [("heron", "The heron waits.")])
    project = make_project(tmp_path, {"corpora": {"a": {"path": "a.jsonl"}}})
    monkeypatch.setenv(config.CONFIG_VARIABLE, str(project.config))
    with runner.instance(project.settings) as instance:
        instance.event_log_storage.initialize_concurrency_limit_to_default("gpu")
        instance.settings = project.settings
        yield instance


def run_of(instance, name, status="STARTED", **tags):
    instance.add_run(dg.DagsterRun("job", run_id=name, status=dg.DagsterRunStatus[status], tags=tags))
    return name


def status(instance, name):
    return instance.get_run_by_id(name).status.value


def worker(instance, name):
    """A process that executes a run, as one that a code server starts."""
    arguments = [sys.executable, "-c", HOLD, instance.root_directory, name]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    return process


def test_runs_whose_process_is_gone_end_whoever_launched_them_and_others_are_left_alone(opened):
    dead, alive = (worker(opened, run_of(opened, name)) for name in ("dead", "alive"))
    with ExitStack() as stack:
        stack.callback(alive.wait)
        stack.callback(alive.kill)
        stack.callback(dead.wait)
        storage = opened.event_log_storage
        assert storage.claim_concurrency_slot("gpu", "dead", "step").is_claimed
        assert not storage.claim_concurrency_slot("gpu", "alive", "step").is_claimed
        # Another machine of the same database executes it.
        run_of(opened, "elsewhere", **{"mog/process": "other 1"})
        assert records.end_killed(opened) == []
        dead.kill()
        dead.wait()
        with dg.build_sensor_context(instance=opened) as context:
            automation.build(opened.settings).get_sensor_def("corpora")(context)
        assert [status(opened, name) for name in ("dead", "alive", "elsewhere")] == ["FAILURE", "STARTED", "STARTED"]
        assert storage.claim_concurrency_slot("gpu", "alive", "step").is_claimed
    assert records.end_killed(opened) == ["alive"]
    # Nothing of them is left.
    records.end_killed(opened)
    assert [*Path(opened.root_directory).glob("running/*")] == []


def test_a_run_that_ends_by_itself_is_never_reported_as_killed(opened):
    with records.holding(opened, run_of(opened, "mine")) as tags:
        opened.add_run_tags("mine", tags)
        assert records.end_killed(opened) == []
        assert status(opened, "mine") == "STARTED"
    opened.report_run_canceled(opened.get_run_by_id("mine"))
    assert records.end_killed(opened) == []
    assert status(opened, "mine") == "CANCELED"


def later(monkeypatch, seconds):
    """Let time pass for the records."""
    now = datetime.now(UTC) + timedelta(seconds=seconds)

    class Later(datetime):
        @classmethod
        def now(cls, zone=None):
            return now.astimezone(zone)

    monkeypatch.setattr(records, "datetime", Later)


def test_what_was_launched_and_never_began_ends_when_its_code_server_is_gone(opened, monkeypatch, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        there, gone = (
            {".dagster/grpc_info": json.dumps({"host": "localhost", "socket": str(tmp_path / n)})} for n in "sg"
        )
        for name, state, tags in (
            ("starting", "STARTING", there),
            ("begun", "STARTED", there),
            ("lost", "STARTING", gone),
            ("lost at once", "NOT_STARTED", {}),
            ("begun and lost", "STARTED", gone),
            ("canceling", "CANCELING", gone),
            # By somebody's own process, such as a notebook.
            ("notebook", "STARTED", {}),
        ):
            run_of(opened, name, state, **tags)
        assert records.end_killed(opened) == []
        later(monkeypatch, 31)
        assert sorted(records.end_killed(opened)) == ["begun and lost", "canceling", "lost", "lost at once"]
    assert sorted(records.end_killed(opened)) == ["begun", "starting"]


def test_of_a_database_server_a_run_that_never_began_is_left_to_dagster(opened, monkeypatch):
    run_of(opened, "lost", "STARTING", **{".dagster/grpc_info": json.dumps({"host": "localhost", "port": 1})})
    later(monkeypatch, 31)
    monkeypatch.setattr(records, "SqliteRunStorage", type("Other", (), {}))
    assert records.end_killed(opened) == []
    monkeypatch.undo()
    later(monkeypatch, 31)
    assert records.end_killed(opened) == ["lost"]


def the_job():
    return automation.build(config.load()).resolve_job_def("build")


def test_the_process_that_executes_a_run_holds_its_lock_file(opened):
    tags = {"dagster/partition": "a"}
    job = dg.reconstructable(the_job)
    done = dg.execute_job(job, opened, asset_selection=[dg.AssetKey("documents")], tags=tags)
    assert done.success
    assert opened.get_run_by_id(done.run_id).tags["mog/process"] == f"{socket.gethostname()} {os.getpid()}"
    (lock,) = Path(opened.root_directory).glob("running/*")
    assert lock.name == done.run_id and records._is_held(lock)
