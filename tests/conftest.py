"""What tests share: a project over the sample corpora, made once; a test that changes something works on a copy.

Five things keep them fast. Temporary folders are in memory where there is room: every write of the store and of Dagster
waits for the disk, which takes longer than what is tested. Copies keep holes: an embedded Qdrant collection is almost
nothing else. Files that take long come first, so that no worker waits for another in the end. Dagster keeps its engines
of databases. And the longest tests (`full`) run under `make test-all` alone.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from filelock import FileLock
from hypothesis import settings as hypothesis

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "mog_assets" / "samples"
VARIABLES = ("DAGSTER_HOME", "MOG_CONFIG", "QDRANT_URL")
# A third of the questions trains and measures the same way in a third of the time.
EVERY = 3
# Of those, so many are answered in every way.
ANSWERED = 12
QUICK = {"answering": {"reader": "extractive"}, "topics": {"min_topic_size": 10_000}}
STOP_SECONDS = 10
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 << 30
BLOCK = 1 << 16

USUAL_EXAMPLES = 100
# No test is about time: another process may hold up any of them.
hypothesis.register_profile("usual", max_examples=USUAL_EXAMPLES, deadline=None)
hypothesis.register_profile("full", max_examples=5 * USUAL_EXAMPLES, deadline=None)
hypothesis.load_profile("usual")


def examples(number):
    """So many examples of a property, and five times as many with `--hypothesis-profile full`."""
    return number * hypothesis.default.max_examples // USUAL_EXAMPLES


def pytest_configure(config):
    """Set where temporary folders are, and one thread a process (the workers use the cores), before anything asks."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_modifyitems(items):
    """Order the files for `--dist loadfile --no-loadscope-reorder`, which gives the next file to whoever is free.

    Files that share something within them (a fixture of the module, a server, the sample project) take long and come
    first, the others fill what time is left. While one worker makes the sample project for the first file of all,
    the other does what does not need it.
    """
    shared, sampled = set(), set()
    for item in items:
        fixtures = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values()]
        if any(f.scope == "module" for f in fixtures) or "start_dagster" in item.fixturenames:
            shared.add(item.path)
        if "sample_project" in item.fixturenames:
            sampled.add(item.path)
    first = next((item.path for item in items if item.path in shared & sampled), None)
    items.sort(key=lambda i: (i.path != first, i.path not in shared | sampled, i.path in sampled))


# A PNG of one white pixel.
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC")


@contextlib.contextmanager
def blank_pictures():
    """Pictures are composed and not drawn: drawing takes more time than making most artefacts, and changes none."""
    from matplotlib.figure import Figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, stream, **options: stream.write(PIXEL))
        yield


@pytest.fixture(autouse=True, scope="session")
def pictures_are_blank():
    """In this process; commands in processes of their own draw."""
    from matplotlib.figure import Figure

    drawing = Figure.savefig
    with blank_pictures():
        yield drawing


@pytest.fixture
def drawn(pictures_are_blank, monkeypatch):
    """Pictures are drawn."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", pictures_are_blank)


# What a run without a terminal says while it works.
PROGRESS = re.compile(
    r"\d+ assets? to check or build|.+: (started \(|done in |failed after |[\d,]+ of [\d,]+)|.+ so far$"
    r"|.+ from now on its owner alone can read it$"
)


def complaints(text):
    """The lines on standard error of a command that are not about its progress."""
    return [line for line in text.strip().splitlines() if not PROGRESS.match(line)]


def copy_file(source, target):
    """Copies a file and leaves out what is zero in it; what is a hole already is not even read."""
    with open(source, "rb", buffering=0) as old, open(target, "wb", buffering=0) as new:
        size, end = os.fstat(old.fileno()).st_size, 0
        new.truncate(size)
        while end < size:
            try:
                start = os.lseek(old.fileno(), end, os.SEEK_DATA)
            except OSError:  # Nothing but a hole follows.
                break
            end = os.lseek(old.fileno(), start, os.SEEK_HOLE)
            while start < end and (block := os.pread(old.fileno(), min(BLOCK, end - start), start)):
                if block.count(0) != len(block):
                    os.pwrite(new.fileno(), block, start)
                start += len(block)
    shutil.copystat(source, target)


def copy_folder(source, target):
    """Copies a folder, its files with their holes; returns the copy."""
    return Path(shutil.copytree(source, target, copy_function=copy_file))


@pytest.fixture(autouse=True, scope="session")
def engines_are_kept():
    """Dagster makes a SQLAlchemy engine for every access to its records, and reads all migrations for every run.

    That takes a third of a small run. The engines pool no connections, and the migrations are those of a package, so
    that one of each does the same.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (sqlite_event_log, sqlite_run_storage):
            patch.setattr(module, "create_engine", kept(module.create_engine, lambda url: url))
        read = kept(ScriptDirectory.from_config, lambda config: config.get_main_option("script_location"))
        patch.setattr(ScriptDirectory, "from_config", read)
        yield


def kept(make, name):
    """`make`, called once for each `name` of its first argument."""
    made = {}

    def once(first, **options):
        if name(first) not in made:
            made[name(first)] = make(first, **options)
        return made[name(first)]

    return once


@pytest.fixture(autouse=True)
def environment_is_restored(monkeypatch):
    """No variable of the shell reaches a test, and none that the project sets outlives it."""
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    yield
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def quiet_instance(home):
    """Have Dagster keep no output of runs where there is no instance yet: no test reads it, and it takes processes."""
    file = home / "dagster" / "dagster.yaml"
    if not file.exists():
        quiet = "compute_logs: {module: dagster._core.storage.noop_compute_log_manager, class: NoOpComputeLogManager}"
        file.parent.mkdir(parents=True, exist_ok=True)
        own = (ROOT / "mog_assets" / "dagster.yaml").read_text(encoding="utf-8")
        file.write_text(f"{own}\n{quiet}\n", encoding="utf-8")


def run_alone(settings, **options):
    """`runner.run` with a Dagster instance in the home of the settings and nowhere else."""
    from mog_assets import runner

    quiet_instance(settings.home)
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    try:
        return runner.run(settings, **options)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def new_project(folder, values):
    """Settings and paths of a `mog.yaml` with these values, `home` beside it.

    What the values do not speak of is made quickly: answers by rules, and no topics, which take a process of their own.
    """
    from mog_assets import config

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mog.yaml"
    values = {"home": "home", **values}
    for name, quick in QUICK.items():
        values[name] = {**quick, **values.get(name, {})}
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    settings = config.load(path)
    return SimpleNamespace(folder=folder, config=path, settings=settings, home=settings.home)


@pytest.fixture(scope="session")
def materialise_project():
    """Runs settings with the environment put back afterwards."""
    return run_alone


@pytest.fixture(scope="session")
def make_project():
    """Writes a `mog.yaml` into a folder and loads it."""
    return new_project


@pytest.fixture(scope="session")
def sample_project(tmp_path_factory):
    """The three sample corpora with a third of their questions, materialised. Not to be changed.

    The first worker that needs it makes it; each works on a copy of its own.
    """
    from mog_assets import config, runner

    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made, told = base / "samples_made", base / "samples_made.json"
    with FileLock(base / "samples_made.lock"):
        if not told.exists():
            report = made_samples(made)
            told.write_text(json.dumps([report.steps, report.failures]), encoding="utf-8")
    folder = tmp_path_factory.mktemp("samples") / "project"
    copy_folder(made, folder)
    path, neural = folder / "mog.yaml", folder / "neural.yaml"
    # The same, asked as a newcomer asks it.
    neural.write_text(path.read_text(encoding="utf-8").replace("reader: extractive", "reader: neural"), "utf-8")
    settings = config.load(path)
    report = runner.RunReport(*json.loads(told.read_text(encoding="utf-8")))
    return SimpleNamespace(
        folder=folder, config=path, neural=neural, settings=settings, home=settings.home, report=report
    )


def made_samples(folder):
    """Materialises the sample project in a folder; returns the report of the run."""
    shutil.copytree(SAMPLES, folder / "samples")
    questions = (SAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "samples" / "questions.jsonl").write_text("".join(questions[::EVERY]), encoding="utf-8")
    project = new_project(
        folder,
        {
            "corpora": {
                "garden": {"path": "samples/garden.jsonl"},
                "workshop": {"path": "samples/workshop"},
                "sky": {"path": "samples/sky"},
            },
            "question_sets": {
                "samples": {
                    "path": "samples/questions.jsonl",
                    "corpora": ["garden", "workshop", "sky"],
                    "train": ["train"],
                    "test": ["dev"],
                }
            },
            "methods": ["default", "papers"],
            "answering": {
                "methods": ["cot", "one-step", "briefcontext", "mogg-paper+topics → at-rag"],
                "questions": ANSWERED,
            },
            "topics": {"min_topic_size": 10},
        },
    )
    return run_alone(project.settings)


@pytest.fixture
def copied_project(sample_project, tmp_path):
    """A copy of the sample project, its home with it."""
    from mog_assets import config

    folder = tmp_path / "copy"
    copy_folder(sample_project.folder, folder)
    settings = config.load(folder / "mog.yaml")
    return SimpleNamespace(folder=folder, config=folder / "mog.yaml", settings=settings, home=settings.home)


@pytest.fixture(scope="session")
def write_documents():
    """Writes (id, text) pairs as a `.jsonl` corpus."""

    def write(path, documents):
        lines = [json.dumps({"id": identity, "title": identity, "text": text}) for identity, text in documents]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def chromium():
    """A browser."""
    from browser import opened

    with opened() as browser:
        yield browser


@pytest.fixture
def start_dagster(tmp_path):
    """Starts `dagster dev` on the repository's workspace; gives URL, process and log. It ends with all it started."""
    with contextlib.ExitStack() as started:

        def start():
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            log = tmp_path / "dagster.log"
            command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml"]
            command += ["-p", str(port), "-h", "127.0.0.1"]
            with log.open("wb") as stream:
                process = subprocess.Popen(
                    command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
                )
            started.callback(stop_group, process)
            return SimpleNamespace(url=f"http://127.0.0.1:{port}", process=process, log=log)

        yield start


def stop_group(process):
    """End a process group: politely, so that its leader ends its own children, then not."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_SECONDS)
