"""What docs/deploy.md says of backups is done as it says: copy, wreck, restore elsewhere, verify."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from types import SimpleNamespace

import dagster as dg
import pytest
import yaml
from postgres import PASSWORD, running
from shared import ROOT, copy_folder

from mog_assets import config
from mog_assets.build import runner

pytestmark = pytest.mark.full

QUESTION = "How deep should garlic cloves be planted?"


def documented(heading):
    """Command lines of a section of the page, without those of a database server; and those alone."""
    text = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text.split(f"\n## {heading}\n")[1], flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if "DATABASE" not in line], [line for line in lines if "DATABASE" in line]


def shell(lines, folder, **environment):
    """Runs lines as somebody types them, up to the first that fails."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def typed(tmp_path):
    """The environment in which `mog` and `python` are these."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, arguments in (("mog", "-m mog_assets.cli"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": ":".join(paths)}


@pytest.fixture
def project(sample_project, tmp_path):
    """The samples as the page has them, in `.mog`, with a log of use; what a question finds."""
    folder = copy_folder(sample_project.folder, tmp_path / "original")
    (folder / "home").rename(folder / ".mog")
    raw = yaml.safe_load((folder / "mog.yaml").read_text(encoding="utf-8"))
    own = {**raw, "home": ".mog", "use": {"log": True}}
    (folder / "mog.yaml").write_text(yaml.safe_dump(own, sort_keys=False), encoding="utf-8")
    return SimpleNamespace(folder=folder, home=folder / ".mog")


def passages(folder, typed):
    found = json.loads(shell([f'mog search "{QUESTION}" --json'], folder, **typed))
    assert found
    return found


def noted(home):
    with sqlite3.connect(home / "use/use.sqlite") as log:
        tables = [name for (name,) in log.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: log.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608


@pytest.mark.whole
@pytest.mark.full
def test_a_backup_restored_elsewhere_is_whole(project, typed, tmp_path):
    before = passages(project.folder, typed)
    entries = noted(project.home)
    assert QUESTION in str(entries)
    # The report shows the settings, which are others than those that the samples were built with.
    shell(["mog run"], project.folder, **typed)
    (copying, _), (restoring, _) = documented("What to back up"), documented("Restore")
    shell(copying, project.folder, **typed)
    elsewhere = tmp_path / "another machine"
    elsewhere.mkdir()
    shutil.move(project.folder / "backup", elsewhere)
    shutil.rmtree(project.folder)
    said = shell(restoring, elsewhere, **typed)
    assert re.search(r"^\d\d+ artefacts checked, 0 faults$", said, re.MULTILINE)
    assert "Everything is up to date: nothing was recomputed" in said
    restored = elsewhere / "restored"
    assert noted(restored / ".mog") == entries
    assert ((restored / ".mog/use").stat().st_mode & 0o777) == 0o700
    assert passages(restored, typed) == before


@pytest.mark.whole
@pytest.mark.full
def test_what_is_left_out_of_a_backup_is_made_from_the_rest(project, typed, tmp_path):
    before = passages(project.folder, typed)
    # What the page says can be made again, without an encoder.
    shutil.rmtree(project.home / "store/runs")
    for file in (project.home / "cache").glob("vectors-*.sqlite"):
        file.unlink()
    moved = project.folder.rename(tmp_path / "moved")
    steps = json.loads(shell(["mog run --json"], moved, **typed))["steps"]
    made = {}
    for step in steps:
        for what, count in step["recomputed"].items():
            made[what] = made.get(what, 0) + count
    assert made.get("texts encoded", 0) == 0
    assert "0 faults" in shell(["mog verify"], moved, **typed)
    assert passages(moved, typed) == before


@pytest.mark.whole
def test_records_of_dagster_are_restored_from_a_dump(project, typed, tmp_path, monkeypatch):
    with running() as server:
        server.ask("CREATE DATABASE dagster")
        home = tmp_path / "dagster"
        home.mkdir()
        shutil.copyfile(ROOT / "deploy/dagster.yaml", home / "dagster.yaml")
        for name, value in {**server.variables("dagster"), "MOG_LOGS": "logs", "DAGSTER_HOME": str(home)}.items():
            monkeypatch.setenv(name, value)
        settings = config.load(project.folder / "mog.yaml")
        assert runner.run(settings, corpora=["sky"], select=["documents"]).steps == []
        (project.folder / "samples/sky/new.txt").write_text("Rainbows have seven colours.", encoding="utf-8")
        assert runner.run(settings, corpora=["sky"], select=["documents"]).failures == []
        (_, dumping), (_, restoring) = documented("What to back up"), documented("Restore")
        # Programs of the server's version come first.
        place = {
            "DATABASE": f"postgresql://dagster@127.0.0.1:{server.port}/dagster",
            "PGPASSWORD": PASSWORD,
            "PATH": f"{server.programs}:{typed['PATH']}",
        }
        (project.folder / "backup").mkdir()
        shell(dumping, project.folder, **place)
        server.ask("DROP DATABASE dagster WITH (FORCE)")
        server.ask("CREATE DATABASE dagster")
        shell(restoring, project.folder, **place)
        with runner.instance(settings) as instance:
            assert instance.get_latest_materialization_event(dg.AssetKey("documents")) is not None
            assert set(instance.get_dynamic_partitions("corpus")) == {"garden", "workshop", "sky"}
            assert runner.run(settings, corpora=["sky"], select=["documents"]).steps == []
