"""What tests share: a project over the sample corpora, made once; a test that changes something works on a copy.

Six things keep them fast. Temporary folders are in memory where there is room: every write of the store and of Dagster
waits for the disk, which takes longer than what is tested. Copies keep holes: an embedded Qdrant collection is almost
nothing else. Files that take long come first, so that no worker waits for another in the end. Dagster keeps its engines
of databases. What was imported is no garbage. And the longest tests (`full`) run under `make test-all` alone.
"""

import contextlib
import gc
import itertools
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

import declared
import pytest
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from filelock import FileLock
from hypothesis import settings as hypothesis
from shared import PAPERS, ROOT, SAMPLES, USUAL_EXAMPLES, VARIABLES, blank_pictures, copy_folder, new_project, run_alone

# A third of the questions trains and measures the same way in a third of the time.
EVERY = 3
# Of those, so many are answered in every way.
ANSWERED = 12
STOP_SECONDS = 10
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 << 30
# After so many files garbage is looked for among all objects.
LOOKED_THROUGH = 20
FILES_DONE = itertools.count(1)
ALL_FULL = re.compile(r"^pytestmark = .*pytest\.mark\.full\b", re.MULTILINE)

# No test is about time: another process may hold up any of them.
hypothesis.register_profile("usual", max_examples=USUAL_EXAMPLES, deadline=None)
hypothesis.register_profile("full", max_examples=3 * USUAL_EXAMPLES, deadline=None)
hypothesis.load_profile("usual")


def pytest_configure(config):
    """Set where temporary folders are, and one thread a process (the workers use the cores), before anything asks."""
    # Until all is imported, see `pytest_collection_finish`; what hands out tests to workers imports none.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        gc.disable()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    clean_environment()
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_ignore_collect(collection_path, config):
    """Leave a file unread whose tests all take long, where those are left out: it may import what takes seconds."""
    if config.option.markexpr == "not full" and collection_path.suffix == ".py":
        return True if ALL_FULL.search(collection_path.read_text(encoding="utf-8")) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark cases of several parts, before marks leave any out, and order the files.

    The order is for `--dist loadfile --no-loadscope-reorder`, which gives the next file to whoever is free.

    Files that share something within them (a fixture of the module, a server, the sample project) take long and come
    first, the others fill what time is left. While one worker makes the sample project for the first file of all,
    the other does what does not need it.
    """
    shared, sampled = set(), set()
    for item in items:
        for mark in item.iter_markers("parts"):
            if any(re.search(rf"(?<!\w){word}(?!\w)", item.callspec.id) for word in mark.args):
                item.add_marker(pytest.mark.whole)
        fixtures = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values()]
        if any(f.scope == "module" for f in fixtures) or "start_dagster" in item.fixturenames:
            shared.add(item.path)
        if "sample_project" in item.fixturenames:
            sampled.add(item.path)
    first = next((item.path for item in items if item.path in shared & sampled), None)
    items.sort(key=lambda i: (i.path != first, i.path not in shared | sampled, i.path in sampled))


def pytest_collection_finish():
    """Have Python no longer look for garbage among a million objects of modules and tests, which stay to the end.

    Looking took half a second after each file.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Close what a file of tests has left open.

    Objects that refer to each other go when Python looks for such, which in a large process is seldom: a worker had
    19 GB and 7,000 files in the end. It looks among those that are new, and now and then among all.
    """
    if nextitem is None or nextitem.path != item.path:
        if next(FILES_DONE) % LOOKED_THROUGH == 0:
            gc.unfreeze()
        gc.collect()
        gc.freeze()


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


@pytest.fixture(autouse=True, scope="session")
def settings_are_declared():
    """What is built in this process reads no setting that its recipe does not declare."""
    from mog_assets.build import materialising

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(materialising, "_build", declared.checked(materialising._build))
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
def environment_is_clean(monkeypatch):
    """No variable of the shell reaches a test, and none that the project or a fixture of a file sets outlives it."""
    clean_environment()
    yield
    clean_environment()


def clean_environment():
    for name in VARIABLES:
        os.environ.pop(name, None)


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
    from mog_assets import config
    from mog_assets.build import runner

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
            "methods": ["default", *(["papers"] if PAPERS else [])],
            "answering": {
                "methods": ["cot", "one-step", *(["briefcontext", "mogg-paper+topics → at-rag"] if PAPERS else [])],
                "questions": ANSWERED,
            },
            **({"topics": {"min_topic_size": 10}} if PAPERS else {}),
        },
    )
    # A home that other tests have built, so that a plugin alone adds to it: see .ci/parts.py.
    home, known = project.settings.home, os.environ.get("MOG_TEST_HOME")
    if known and Path(known).is_dir():
        copy_folder(Path(known), home)
    report = run_alone(project.settings)
    if known and not Path(known).is_dir():
        copy_folder(home, Path(f"{known}.part"))
        Path(f"{known}.part").rename(known)
    return report


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


@pytest.fixture(autouse=True, scope="session")
def vectors_to_the_byte():
    """Have few texts encoded as many are, whatever was imported: tests compare files."""
    from mog_assets.resources import transformer

    transformer.WITHOUT_TORCH = 0


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """The extractive reader with the encoder that comes with mog."""
    from mog_assets.answer.extractive import Extractive
    from mog_assets.resources.encoder import Encoder
    from mog_assets.resources.encoder_settings import EMBEDDED, EncoderSettings

    encoder = Encoder(EncoderSettings(dtype="float32"), tmp_path_factory.mktemp("vectors"))
    return Extractive(encoder.encode, EMBEDDED)


@pytest.fixture(params=["words", "embedded"])
def extractive(request):
    """The extractive reader with each of two encoders."""
    from readers import by_words

    from mog_assets.answer.extractive import Extractive

    return Extractive(by_words, "words") if request.param == "words" else request.getfixturevalue("embedded")


@pytest.fixture(scope="session")
def neural():
    """The neural reader that comes with the package, without vectors."""
    from mog_assets.answer.neural import Neural
    from mog_assets.answer.reader.model import shipped

    def refuse(texts):
        raise AssertionError("an open question needs no vectors")

    return Neural(refuse, "e", network=shipped())


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
