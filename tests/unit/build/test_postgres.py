"""Dagster's records in a real Postgres: runs, sensors, and what a run makes of a server that is killed."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner
from crashes import CORPORA, artefacts, forking, temporary, write_project
from dagster_daemon import Daemon
from postgres import running
from shared import ROOT, complaints
from sqlalchemy import pool

from mog_assets import config
from mog_assets.cli import main
from mog_assets.cli.findings import run_check
from mog_assets.cli.verification import verify
from mog_assets.resources.store import Store

# Its project is that of the test of automation.
pytestmark = [pytest.mark.full, pytest.mark.whole]

NEW = {"id": "quince", "title": "Quince", "text": "Quinces ripen late. Pick them in October and keep them cool."}


@pytest.fixture(scope="module")
def server():
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def database(server):
    """Makes databases, each empty; gives what the environment must hold."""
    made = []

    def make():
        made.append(f"dagster{len(made)}")
        server.ask(f"CREATE DATABASE {made[-1]}")
        return {**server.variables(made[-1]), "MOG_LOGS": "logs"}

    return make


@pytest.fixture
def kept_connections(monkeypatch):
    """One process asks a thousand times a tick: connections are kept, as Dagster's webserver and daemon keep them."""
    monkeypatch.setattr(pool, "NullPool", pool.QueuePool)


@pytest.fixture
def settings_of_dagster(tmp_path, monkeypatch, database):
    """A DAGSTER_HOME with the dagster.yaml of `deploy`, as the environment names it."""
    home = tmp_path / "dagster"
    home.mkdir()
    shutil.copyfile(ROOT / "deploy/dagster.yaml", home / "dagster.yaml")
    values = {**database(), "MOG_LOGS": str(home / "logs"), "DAGSTER_HOME": str(home)}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return SimpleNamespace(home=home, values=values)


def mog(folder, *arguments, **environment):
    """The command in a process of its own."""
    own = {name: value for name, value in os.environ.items() if name != "MOG_CONFIG"}
    return subprocess.run(
        [sys.executable, "-m", "mog_assets.cli", *arguments],
        cwd=folder,
        env={**own, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )


def seen(instance):
    """Statuses of runs that Dagster recorded."""
    return [run.status.value for run in instance.get_runs()]


def test_an_added_document_is_noticed_and_built_with_records_in_postgres(
    settings_of_dagster, kept_connections, server, tmp_path
):
    folder = tmp_path / "project"
    write_project(folder, {name: CORPORA[name] for name in ("pond", "moor")}, levels=1)
    daemon = Daemon(folder)
    built = daemon.settle()
    assert built and all(run.success for run in built), [run.failures for run in built]
    with (folder / "pond.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(NEW) + "\n")
    runs = daemon.settle()
    assert runs[0].partition == "pond" and all(run.success for run in runs), [run.failures for run in runs]
    assert Store(folder / "home").read("documents", "pond").manifest.counts["documents"] == 4
    assert set(seen(daemon.instance)) == {"SUCCESS"}
    # Nothing of it lies in SQLite.
    database = settings_of_dagster.values["DAGSTER_POSTGRES_DB"]
    assert int(server.ask("SELECT count(*) FROM runs", database)) == len(built) + len(runs)
    assert not list(settings_of_dagster.home.rglob("*.db")) and not (folder / "home/dagster").exists()
    daemon.instance.dispose()
    assert verify(config.load(folder / "mog.yaml"))[1] == []


@pytest.fixture(scope="module")
def stopping(database):
    """`mog` in processes that can be stopped at a point, with records in one database for all."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in database().items():
            patch.setenv(name, value)
        with forking() as run:
            yield run


def project(folder):
    write_project(folder, CORPORA, answering={"methods": []})
    home = folder / "home/dagster"
    home.mkdir(parents=True)
    text = (ROOT / "deploy/dagster.yaml").read_text(encoding="utf-8")
    # Of this project, which has no DAGSTER_HOME of its own.
    (home / "dagster.yaml").write_text(text.replace("{env: MOG_LOGS}", str(home / "logs")), encoding="utf-8")


@pytest.fixture(scope="module")
def uninterrupted(stopping, tmp_path_factory):
    folder = tmp_path_factory.mktemp("postgres") / "uninterrupted"
    project(folder)
    done = stopping(folder, "run")
    assert done.code == 0, done.said
    return SimpleNamespace(artefacts=artefacts(folder), reached=done.reached)


# The first of all, and one in the middle.
@pytest.mark.full
@pytest.mark.parametrize("share", [0, 0.5])
def test_after_postgres_was_killed_in_a_run_the_next_run_is_whole(stopping, uninterrupted, server, tmp_path, share):
    folder = tmp_path / "project"
    project(folder)
    point = "manifest moved"
    stopped = stopping(folder, "run", stop_at=(point, 1 + int(share * (uninterrupted.reached[point] - 1))))
    server.kill()
    try:
        ended = stopping.resume()
        assert ended.code == 1, ended
        check_said(ended.said)
    finally:
        server.start()
    assert getattr(stopped, "code", None) is None
    left = artefacts(folder)
    assert left and set(left.items()) < set(uninterrupted.artefacts.items())
    done = stopping(folder, "run")
    assert done.code == 0, done.said
    assert verify(config.load(folder / "mog.yaml"))[1] == []
    assert artefacts(folder) == uninterrupted.artefacts
    assert temporary(folder) == []


def check_said(said):
    """One line that names the place, the cause and the remedy; at most another one before, while it still tries.

    Dagster adds one for each message of its log that it could not keep.
    """
    lost = "Exception while writing logger call to event log: "
    lines = [line for line in complaints(said) if line.strip() and not line.startswith(lost)]
    assert "Traceback" not in said and len(lines) <= 2, said
    assert "Dagster's database, which" in lines[-1] and "dagster.yaml names" in lines[-1]
    assert "start it or correct the settings, then run again; nothing that was built is lost" in lines[-1]
    assert "not secret" not in said


@pytest.mark.full
def test_a_run_without_postgres_says_so_in_a_line(settings_of_dagster, server, tmp_path, monkeypatch):
    folder = tmp_path / "project"
    write_project(folder, CORPORA)
    server.kill()
    try:
        done = mog(folder, "run")
        found = records()
    finally:
        server.start()
    assert done.returncode == 1
    check_said(done.stderr)
    assert "refused" in done.stderr
    assert found.state == "problem" and "refused" in found.found


def records():
    """What `mog doctor` says of Dagster's records."""
    from mog_assets.plugins.upkeep import doctor

    (finding,) = run_check("dagster", doctor.dagster)
    return finding


def test_doctor_says_where_the_records_are_and_whether_they_can_be_reached(settings_of_dagster, server, monkeypatch):
    database = settings_of_dagster.values["DAGSTER_POSTGRES_DB"]
    finding = records()
    assert finding.state == "ok"
    assert finding.found.endswith(f"records in Postgres at 127.0.0.1:{server.port}, database {database}")
    monkeypatch.setenv("DAGSTER_POSTGRES_PASSWORD", "wrong one")
    finding = records()
    assert finding.state == "problem" and "password authentication failed" in finding.found
    assert "wrong one" not in str(finding)
    monkeypatch.delenv("DAGSTER_POSTGRES_DB")
    finding = records()
    assert finding.state == "problem" and "DAGSTER_POSTGRES_DB" in finding.found


def write_yaml(home, values):
    (home / "dagster.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


WRONG = {
    "a variable that is not set": (
        {"hostname": {"env": "NOT_SET_ANYWHERE"}, "username": "dagster", "db_name": "dagster"},
        "NOT_SET_ANYWHERE",
    ),
    "an unknown key": ({"hostname": "127.0.0.1", "user": "dagster", "db_name": "dagster"}, 'config entry "user"'),
    "another driver": (
        {"hostname": "127.0.0.1", "username": "dagster", "db_name": "dagster"},
        "add `scheme: postgresql+psycopg2` to postgres_db",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_settings_of_dagster_are_said_in_a_line(wrong, tmp_path, monkeypatch):
    values, expected = WRONG[wrong]
    write_project(tmp_path / "project", {"moor": CORPORA["moor"]})
    (tmp_path / "dagster").mkdir()
    write_yaml(tmp_path / "dagster", {"storage": {"postgres": {"postgres_db": values}}})
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    result = CliRunner().invoke(main, ["run", "--config", str(tmp_path / "project/mog.yaml")])
    (line,) = result.stderr.strip().splitlines()
    assert result.exit_code == 2 and line.startswith(f"mog: {tmp_path / 'dagster/dagster.yaml'}: expected")
    assert expected in line
