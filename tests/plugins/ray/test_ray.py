"""The engine `ray` on real clusters of this machine."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from shared import SAMPLES, new_project, run_alone

# Before Ray is imported: it skips these tests where there is none.
from ray_cluster import GONE_SECONDS, NODE, processes_of_ray, running_cluster  # isort: skip
import ray

from mog_assets.build.plan import graph
from mog_assets.build.tools import Tools
from mog_assets.plugins.ray import cluster as connections
from mog_assets.plugins.ray.engine import RayEngine
from mog_assets.plugins.ray.settings import RaySettings
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.files import alive

CORPUS_ASSETS = ["group:corpus", "group:chunking", "tokens", "bm25/level_1", "embeddings/level_1", "sentence_graph"]


# Functions for tasks, by the name `test_ray:…`: workers import them from the folder of the tests.
def write_number(number, out, log=None):
    Path(out).write_text(str(number))
    return number


def fail(message, out):
    raise LookupError(message)


def work_until_told(number, marks, out):
    """Says where it works, and writes once it is told that a node was killed."""
    (Path(marks) / f"{number}-{ray.get_runtime_context().get_node_id()}-{os.getpid()}").touch()
    Path(out).write_text("half")
    while not (Path(marks) / "killed").exists():
        time.sleep(0.05)
    return write_number(number, out)


def jobs(folder, count, **arguments):
    return [{"number": n, "out": str(folder / f"{n}.txt"), **arguments} for n in range(count)]


@pytest.fixture(scope="module")
def two_nodes():
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def left():
    yield
    connections.leave()


def engine(cluster, home, **values):
    home.mkdir(exist_ok=True)
    return RayEngine(RaySettings(kind="ray", address=cluster.address, **values), home)


def settings_of(folder, **values):
    """Per-corpus stages of the sample corpora."""
    corpora = {
        "garden": {"path": str(SAMPLES / "garden.jsonl")},
        "sky": {"path": str(SAMPLES / "sky")},
    }
    values = {"levels": 2, "buckets": 6, "encoder": {"device": "cpu"}, **values}
    return new_project(folder, {"corpora": corpora, **values}).settings


def built(settings):
    """Version of every artefact and bytes of every file, after building the stages of every corpus."""
    # The sentence graph is of a paper.
    recipes = graph(settings)
    selected = [name for name in CORPUS_ASSETS if name.startswith("group:") or name in recipes]
    report = run_alone(settings, select=selected)
    assert report.failures == []
    return content(settings)


def content(settings):
    store, found = Tools(settings).store, {}
    for path in sorted(store.folder("").rglob("manifest.json")):
        relative = path.parent.relative_to(store.folder(""))
        asset, _, corpus = relative.as_posix().partition("/corpus/")
        artefact = store.read(asset, corpus or None)
        found[asset, corpus] = artefact.manifest.version
        for name in artefact.names():
            found[asset, corpus, name] = artefact.path(name).read_bytes()
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return built(settings_of(tmp_path_factory.mktemp("alone") / "project"))


@pytest.mark.full
def test_two_nodes_make_the_same_bytes_as_one_process(two_nodes, alone, tmp_path, left, monkeypatch):
    monkeypatch.setattr("mog_assets.plugins.ray.remote_encoder._TEXTS", 16)
    values = {"kind": "ray", "address": two_nodes.address}
    settings = settings_of(tmp_path / "project", engine=values)
    made = built(settings)
    assert len(alone) > 20
    assert made.keys() == alone.keys()
    assert [key for key in alone if made[key] != alone[key]] == []
    connections.leave()
    # Nothing of the connection stays in the home folder.
    assert list((settings.home / "cache" / "ray").iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize(
    "kept", [False, pytest.param(True, marks=pytest.mark.full)], ids=["tasks", "processes that stay"]
)
def test_what_a_killed_node_was_doing_is_done_by_another(tmp_path, left, kept):
    marks = tmp_path / "marks"
    marks.mkdir()
    with running_cluster(1) as cluster:
        second = cluster.add_node(**NODE)
        engine_of = engine(cluster, tmp_path / "home")

        def kill():
            # Both nodes are in the middle of a task.
            while len({mark.name.split("-")[1] for mark in marks.iterdir()}) < 2:
                time.sleep(0.05)
            second.kill_raylet(check_alive=True)
            # A process notices after a while that its node is dead.
            for mark in marks.iterdir():
                _, node, pid = mark.name.split("-")
                while node == second.node_id and alive(int(pid)):
                    time.sleep(0.05)
            (marks / "killed").touch()

        threading.Thread(target=kill, daemon=True).start()
        work = jobs(tmp_path, 6, marks=str(marks))
        with engine_of.open_pool(6) if kept else nullcontext(engine_of.map) as call:
            found = list(call("test_ray:work_until_told", work))
    assert sorted(found) == list(range(6))
    assert [(tmp_path / f"{n}.txt").read_text() for n in range(6)] == [str(n) for n in range(6)]
    begun = [mark.name.partition("-")[0] for mark in marks.iterdir() if mark.name != "killed"]
    # What the killed node was doing was begun twice.
    assert len(begun) > len(set(begun)) == 6


@pytest.mark.full
def test_an_exception_of_the_function_arrives_as_it_is_and_is_not_retried(two_nodes, tmp_path):
    jobs_of = [{"message": "no such page", "out": str(tmp_path / f"{n}.txt")} for n in range(2)]
    with pytest.raises(LookupError, match="^'no such page'$|^no such page$") as raised:
        list(engine(two_nodes, tmp_path / "home").map("test_ray:fail", jobs_of))
    assert type(raised.value) is LookupError
    assert list(tmp_path.glob("*.txt")) == list(tmp_path.glob(".tmp-*")) == []


@pytest.mark.full
def test_the_window_bounds_how_many_tasks_are_pending(two_nodes, tmp_path):
    found = engine(two_nodes, tmp_path / "home", pending=3).map("test_ray:write_number", jobs(tmp_path, 12))
    next(found)
    # Nobody asks for more, so that nothing more is submitted: the rest of the window ends, and that is all.
    until = time.monotonic() + GONE_SECONDS
    while len(list(tmp_path.glob("*.txt"))) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    # Long enough for one more, had it been submitted.
    time.sleep(2)
    assert len(list(tmp_path.glob("*.txt"))) == 3
    assert len(list(found)) == 11


@pytest.mark.full
def test_a_task_that_dies_every_time_names_its_file(two_nodes, tmp_path):
    with pytest.raises(MogError, match=r"test_ray:die for .*txt died, with 1 retries"):
        list(engine(two_nodes, tmp_path / "home", retries=1).map("test_ray:die", jobs(tmp_path, 2)))


def die(number, out):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(number, marks, out):
    mark = Path(marks) / str(number)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return write_number(number, out)


@pytest.mark.full
def test_processes_that_stay_are_replaced_when_they_die(two_nodes, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    work = jobs(tmp_path, 3, marks=str(marks))
    with engine(two_nodes, tmp_path / "home", encoders=1).open_pool(3) as kept:
        assert sorted(kept("test_ray:die_once", work)) == [0, 1, 2]
        with pytest.raises(LookupError, match="gone"):
            list(kept("test_ray:fail", [{"message": "gone", "out": str(tmp_path / "f")}]))


@pytest.mark.full
def test_more_gpus_than_there_are_is_an_error(two_nodes, tmp_path):
    with (
        pytest.raises(MogError, match=r"engine.gpus: expected at most 0, which the cluster has, got 1"),
        engine(two_nodes, tmp_path / "home", gpus=1).open_pool(1),
    ):
        pass


def test_nodes_must_have_the_packages_of_all_extras_that_build():
    assert {"numpy", "lightgbm", "openai", "scipy", "torch"} <= dict(connections.versions()).keys()


@pytest.mark.full
def test_a_node_with_other_code_is_named(two_nodes, tmp_path, monkeypatch):
    others = (*((name, "0.0" if name == "numpy" else version) for name, version in connections.versions()),)
    monkeypatch.setattr(connections, "versions", lambda: others)
    with pytest.raises(MogError, match=r"node \w{8} \(.*\) has numpy \d.*, expected 0\.0: install the same versions"):
        list(engine(two_nodes, tmp_path / "home").map("test_ray:write_number", jobs(tmp_path, 2)))


@pytest.mark.full
def test_a_node_that_does_not_see_the_home_folder_is_named_before_work_begins(tmp_path, left):
    """The node runs in a mount namespace of its own, in which an empty file system hides the folder."""
    connections.leave()
    home = tmp_path / "home"
    home.mkdir()
    apart = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces cannot be made here")
    with running_cluster(1) as cluster:
        start = f"{sys.executable} -m ray.scripts.scripts start --block --address={cluster.address} --num-cpus=1"
        hidden = f"mount -t tmpfs none {home} && exec {start} --object-store-memory={80 << 20}"
        node = subprocess.Popen(
            [*apart, "sh", "-c", hidden], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            ray.init(cluster.address, log_to_driver=False, configure_logging=False)
            while len([n for n in ray.nodes() if n["Alive"]]) < 2:
                assert node.poll() is None
                time.sleep(0.2)
            ray.shutdown()
            with pytest.raises(MogError, match=rf"node \w{{8}} .* does not see {home}.*: mount the home folder"):
                list(engine(cluster, home).map("test_ray:write_number", jobs(tmp_path, 4)))
        finally:
            ray.shutdown()
            os.killpg(node.pid, signal.SIGTERM)
            node.wait(GONE_SECONDS)
    assert list(tmp_path.glob("*.txt")) == []
    # The folder of the failed connection is gone.
    assert list((home / "cache" / "ray").iterdir()) == []


def test_no_cluster_at_the_address_is_said(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(MogError, match=rf"engine.address: no Ray cluster at {address}"):
        RayEngine(RaySettings(kind="ray", address=address), tmp_path).describe()


@pytest.mark.full
def test_another_server_at_the_address_is_not_waited_for_long(tmp_path):
    script = (
        "import sys; from pathlib import Path\n"
        "from mog_assets.plugins.ray.engine import RayEngine\nfrom mog_assets.plugins.ray.settings import RaySettings\n"
        "chosen = RaySettings(kind='ray', address=sys.argv[1], wait_seconds=2)\n"
        "try: RayEngine(chosen, Path(sys.argv[2])).describe()\n"
        "except Exception as error: print(error)"
    )
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        said = subprocess.run(
            [sys.executable, "-c", script, address, str(tmp_path)], capture_output=True, text=True, timeout=60
        )
    assert f"no Ray cluster answered at {address} within 2 seconds" in said.stdout


@pytest.mark.parametrize(
    ("address", "said"),
    [("ray://head:10001", "Ray Client"), ("head", "expected `auto` or `host:port`, got 'head'")],
)
def test_other_addresses_are_refused(tmp_path, address, said):
    with pytest.raises(ConfigError, match=said):
        settings_of(tmp_path / "project", engine={"kind": "ray", "address": address})


LOCAL = """
import sys, time
from pathlib import Path
from mog_assets.plugins.ray.engine import RayEngine
from mog_assets.plugins.ray.settings import RaySettings
engine = RayEngine(RaySettings(kind="ray"), Path(sys.argv[1]))
work = [{"number": n, "out": f"{sys.argv[1]}/{n}.txt"} for n in range(3)]
import ray
print(sorted(engine.map("test_ray:write_number", work)), engine.describe(), flush=True)
print(Path(ray._private.worker._global_node.get_session_dir_path()).name, flush=True)
time.sleep(600)
"""


@pytest.mark.full
def test_a_ray_that_is_started_here_ends_with_its_process_even_if_that_is_killed(tmp_path):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", LOCAL, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        said, session = process.stdout.readline(), process.stdout.readline().strip()
        there = processes_of_ray(session)
        process.kill()
    assert said.startswith("[0, 1, 2] ray ") and "CPUs: 2" in said
    assert session and there
    deadline = time.monotonic() + GONE_SECONDS
    while processes_of_ray(session) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of_ray(session) == set()


def test_without_the_package_the_extra_is_named(tmp_path):
    script = (
        "import sys; sys.modules['ray'] = None\n"
        "from pathlib import Path\n"
        "from mog_assets.plugins.ray.engine import RayEngine\nfrom mog_assets.plugins.ray.settings import RaySettings\n"
        "try: RayEngine(RaySettings(kind='ray'), Path(sys.argv[1])).describe()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("MogError engine.kind: ray needs the package ray")
    assert "pip install 'mog-assets[ray]'" in said.stdout
