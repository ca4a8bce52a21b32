"""What tests share that is no fixture: places, copies of projects, what commands say."""

import base64
import contextlib
import os
import re
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import settings as hypothesis

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "mog_assets" / "samples"
VARIABLES = ("DAGSTER_HOME", "MOG_CONFIG", "QDRANT_URL")
# A copy of the core alone has none (.ci/parts.py).
PAPERS = (ROOT / "mog_assets" / "papers").is_dir()
# Asks for Qdrant, in this process, where the copy has it.
QDRANT = {"qdrant": {}} if (ROOT / "mog_assets" / "plugins" / "qdrant").is_dir() else {}
QUICK = {"answering": {"reader": "extractive"}} | ({"topics": {"min_topic_size": 10_000}} if PAPERS else {})
BLOCK = 1 << 16
USUAL_EXAMPLES = 100


def examples(number):
    """So many examples of a property, and five times as many with `--hypothesis-profile full`."""
    return number * hypothesis.default.max_examples // USUAL_EXAMPLES


# A PNG of one white pixel.
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC")


@contextlib.contextmanager
def blank_pictures():
    """Pictures are composed and not drawn: drawing takes more time than making most artefacts, and changes none."""
    from matplotlib.figure import Figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, stream, **options: stream.write(PIXEL))
        yield


# What a run without a terminal says while it works.
PROGRESS = re.compile(
    r"\d+ assets? to check or build|.+: (started \(|done in |failed after |[\d,]+ of [\d,]+)|.+ so far$"
    r"|.+ from now on its owner alone can read it$|Words can be searched from now on: mog search --method "
)


def until(condition, seconds=60):
    """What a condition gives once it is true."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return value


def complaints(text):
    """The lines on standard error of a command that are not about its progress."""
    return [line for line in text.strip().splitlines() if not PROGRESS.match(line)]


def called(*arguments):
    """The command `mog` in this process."""
    from mog_assets.cli import main

    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result


def one_line(text):
    """The only line on standard error of a command that could not do what it was asked."""
    lines = complaints(text)
    assert len(lines) == 1 and lines[0].startswith("mog: "), text
    return lines[0]


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
    from mog_assets.build import runner

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
