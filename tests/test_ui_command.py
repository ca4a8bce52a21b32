"""The real command `mog ui` in an empty folder: what it serves, how it ends, and what it puts into the home folder."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

from mog_assets import config, runner

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS, END_SECONDS = 240, 10
# The last one that was written without the setting of the sign-up dialog.
EARLIER_DEFAULT = """\
# The Dagster instance. `mog ui` puts it into DAGSTER_HOME.
concurrency:
  pools:
    # An asset in a pool (`gpu`) runs alone; raise it where the hardware allows.
    default_limit: 1
    granularity: op
  runs:
    # A run a corpus: each is a process that holds the encoder.
    max_concurrent_runs: 2

run_monitoring:
  enabled: true
  # A run that was killed gives its place in a pool back.
  free_slots_after_run_end_seconds: 60

telemetry:
  enabled: false
"""


class Served:
    """`mog ui` in a folder where there is nothing but `mog.yaml` and a document."""

    def __init__(self, folder):
        (folder / "garden.jsonl").write_text(json.dumps({"id": "a", "text": "A hedge."}) + "\n", encoding="utf-8")
        values = {"home": "home", "corpora": {"garden": {"path": "garden.jsonl"}}, "automation": {"enabled": False}}
        (folder / "mog.yaml").write_text(json.dumps(values), encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = folder / "log"
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mog_assets.cli", "ui", "--port", str(self.port)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
        self.known = {self.process.pid}

    def ask(self, query):
        body = json.dumps({"query": query}).encode()
        url = f"http://127.0.0.1:{self.port}/graphql"
        with urllib.request.urlopen(
            urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=5
        ) as answer:
            return json.load(answer)["data"]

    def until(self, condition, seconds=START_SECONDS):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, self.log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)
        return value

    def answers(self):
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
        try:
            return self.ask("{ assetNodes { id } }")["assetNodes"]
        except OSError:
            return None

    def descendants(self):
        """Processes that are there and descend from any that was seen before."""
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True).stdout
        rows = [(int(pid), int(parent), state) for pid, parent, state in (line.split() for line in listed.splitlines())]
        # A child may have a smaller id than its parent, and be listed before it.
        while found := {pid for pid, parent, _ in rows if parent in self.known} - self.known:
            self.known |= found
        alive = {pid for pid, _, state in rows if state[0] != "Z"}
        return (self.known & alive) - {self.process.pid}

    def end(self):
        for pid in self.descendants() | {self.process.pid}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()


@pytest.fixture
def served(tmp_path):
    started = Served(tmp_path)
    yield started
    started.end()


def test_it_serves_the_graph_without_a_sign_up_and_ends_with_all_it_started_on_sigterm(served):
    served.until(served.answers)
    shown = served.ask("{ shouldShowNux workspaceOrError { ... on Workspace { locationEntries { name } } } }")
    assert shown == {"shouldShowNux": False, "workspaceOrError": {"locationEntries": [{"name": "mog-assets"}]}}
    # `dagster dev`, code server, web server and daemon; the last may still be starting.
    served.until(lambda: len(served.descendants()) >= 4)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(END_SECONDS) == 143
    assert served.descendants() == set()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", served.port))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_dagster_ends_when_it_is_killed(served):
    served.until(lambda: served.descendants())
    served.process.kill()
    served.process.wait()
    served.until(lambda: not served.descendants(), END_SECONDS)


@pytest.fixture
def settings(make_project, tmp_path):
    (tmp_path / "a.jsonl").write_text("", encoding="utf-8")
    return make_project(tmp_path, {"corpora": {"a": {"path": "a.jsonl"}}}).settings


@pytest.mark.parametrize("there", [None, EARLIER_DEFAULT, ""])
def test_home_gets_the_defaults_where_nobody_changed_those_of_an_earlier_version(settings, there):
    file = settings.home / "dagster" / "dagster.yaml"
    if there is not None:
        file.parent.mkdir(parents=True)
        file.write_text(there, encoding="utf-8")
    runner.prepare_home(settings)
    assert file.read_bytes() == (Path(config.__file__).parent / "dagster.yaml").read_bytes()
    with runner.instance(settings) as opened:
        assert not opened.nux_enabled


def test_home_keeps_what_somebody_changed(settings):
    file = settings.home / "dagster" / "dagster.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(EARLIER_DEFAULT.replace("default_limit: 1", "default_limit: 2"), encoding="utf-8")
    runner.prepare_home(settings)
    assert "default_limit: 2" in file.read_text(encoding="utf-8")


def test_wheel_holds_what_it_serves(tmp_path):
    for name in ("mog_assets", "resources"):
        shutil.copytree(ROOT / name, tmp_path / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "source")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "."],
        cwd=tmp_path / "source",
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert {"mog_assets/dagster.yaml", "mog_assets/workspace.yaml"} <= set(zipfile.ZipFile(wheel).namelist())
