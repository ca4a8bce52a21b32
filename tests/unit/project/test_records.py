"""What the sensor of a running `mog ui` does about a `mog run` that was killed."""

import os
import socket
import subprocess
import sys

import dagster as dg

from mog_assets import automation, config, runner


def test_sensor_gives_back_what_the_run_of_a_killed_process_holds_of_a_pool(
    make_project, write_documents, tmp_path, monkeypatch
):
    write_documents(tmp_path / "a.jsonl", [("heron", "The heron waits.")])
    project = make_project(tmp_path, {"corpora": {"a": {"path": "a.jsonl"}}})
    monkeypatch.setenv(config.CONFIG_VARIABLE, str(project.config))
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    with runner.instance(project.settings) as opened:
        for run_id, pid in (("killed", gone.pid), ("alive", os.getpid())):
            tags = {"mog/process": f"{socket.gethostname()} {pid} 1"} if run_id == "killed" else runner.process_tags()
            opened.add_run(dg.DagsterRun("job", run_id=run_id, status=dg.DagsterRunStatus.STARTED, tags=tags))
        storage = opened.event_log_storage
        storage.initialize_concurrency_limit_to_default("gpu")
        assert storage.claim_concurrency_slot("gpu", "killed", "step").is_claimed
        assert not storage.claim_concurrency_slot("gpu", "alive", "step").is_claimed
        with dg.build_sensor_context(instance=opened) as context:
            automation.build(project.settings).get_sensor_def("corpora")(context)
        assert opened.get_run_by_id("killed").status == dg.DagsterRunStatus.FAILURE
        assert opened.get_run_by_id("alive").status == dg.DagsterRunStatus.STARTED
        assert storage.claim_concurrency_slot("gpu", "alive", "step").is_claimed
