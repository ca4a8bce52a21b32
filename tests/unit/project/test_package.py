"""The wheel holds all that the command needs, and works in an empty folder away from the repository."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest
import yaml
from embedding_server import EmbeddingServer
from shared import ROOT, SAMPLES, VARIABLES

# A wheel is of the checkout.
pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names in the built wheel, the folder it is unpacked in, and the wheel."""
    # A copy: building leaves files in the source folder.
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "mog_assets", source / "mog_assets", ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", source)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "unpacked")
        return set(archive.namelist()), folder / "unpacked", built


def test_the_wheel_holds_every_file_of_the_packages(wheel):
    names = wheel[0]
    tracked = subprocess.run(
        ["git", "ls-files", "mog_assets", "resources"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    tracked.remove("mog_assets/resources")
    tracked = [f"mog_assets/{name}" if name.startswith("resources/") else name for name in tracked]
    assert "mog_assets/samples/workshop/bread.md" in tracked
    assert set(tracked) - names == set()
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks", "resources"))]


@pytest.mark.full
def test_a_folder_named_resources_of_the_user_hides_nothing(wheel, tmp_path):
    theirs = tmp_path / "resources"
    theirs.mkdir()
    (theirs / "__init__.py").write_text("theirs = True\n", encoding="utf-8")
    files = [name for name in wheel[0] if name.startswith("mog_assets/resources/") and name.endswith(".py")]
    names = sorted(name.removesuffix(".py").replace("/", ".") for name in files if "__init__" not in name)
    assert "mog_assets.resources.store" in names
    imports = ", ".join(["mog_assets.build.stopping", *names, "resources"])
    code = f"import {imports}; assert resources.theirs; print(mog_assets.__file__)"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(wheel[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert str(wheel[1]) in done.stdout


@pytest.mark.full
def test_the_unpacked_wheel_makes_a_project_of_the_samples(wheel, tmp_path):
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "__init__.py").touch()
    environment = {**os.environ, "PYTHONPATH": str(wheel[1])}

    def mog(*arguments):
        command = [sys.executable, "-c", "import sys; from mog_assets.cli import main; main()", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    made = mog("init", "--samples")
    assert made.returncode == 0, made.stderr
    assert "questions samples: samples/questions.jsonl" in made.stdout
    done = mog("run", "--corpus", "sky", "--select", "documents")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".mog" / "store" / "documents").is_dir()


# What is there with an endpoint alone: pyarrow, numpy and numkong are 290 of it.
MOST_MIB = 390


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory):
    """An environment of its own with the wheel and what it requires to ask an endpoint."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, with_pip=True)
    install = ["install", "-q", "--no-compile", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    install.append(f"{wheel[2]}[openai]")
    subprocess.run([folder / "bin" / "python", "-m", "pip", *install], check=True, capture_output=True, text=True)
    return folder


@pytest.fixture(scope="module")
def served_vectors():
    with EmbeddingServer() as server:
        yield server


@pytest.fixture(scope="module")
def built(served_vectors, tmp_path_factory):
    """A project that another environment has built, with an encoder behind an endpoint."""
    folder = tmp_path_factory.mktemp("built")
    endpoint = {"form": "openai", "url": served_vectors.url}
    values = {"corpora": {"sky": {"path": str(SAMPLES / "sky")}}, "encoder": {"model": "m-1", "endpoint": endpoint}}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    done = run(folder, [sys.executable, "-m", "mog_assets.cli", "run"], PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    return folder


def run(folder, command, **more):
    own = {name: value for name, value in os.environ.items() if name not in (*VARIABLES, "PYTHONPATH")}
    environment = {**own, "OPENAI_API_KEY": "sk-loopback", **more}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.full
@pytest.mark.parametrize("method", ["fixed-2", "dense-2", "fused"])
def test_with_an_endpoint_alone_questions_get_the_passages_that_they_get_with_all(core, built, method):
    words = ["search", "How far away is the moon?", "--method", method, "--json"]
    here = run(built, [core / "bin" / "mog", *words])
    there = run(built, [sys.executable, "-m", "mog_assets.cli", *words], PYTHONPATH=str(ROOT))
    assert here.returncode == 0, here.stderr
    assert here.stdout == there.stdout and json.loads(here.stdout)


@pytest.mark.full
def test_with_an_endpoint_alone_an_answer_by_the_reader_of_this_machine_says_what_it_needs(core, built):
    done = run(built, [core / "bin" / "mog", "ask", "How far away is the moon?"])
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "mog: answering.reader: neural needs the package torch: pip install 'mog-assets[local]'\n"


@pytest.mark.full
def test_with_an_endpoint_alone_the_packages_are_few_and_fit_together(core):
    files = [path for path in (core / "lib").rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < MOST_MIB << 20
    checked = run(core, [core / "bin" / "python", "-m", "pip", "check"])
    assert checked.returncode == 0, checked.stdout


@pytest.mark.full
@pytest.mark.parametrize(
    ("command", "extra"), [("run", "build"), ("prune", "build"), ("ui", "build"), ("serve", "serve"), ("mcp", "mcp")]
)
def test_a_command_that_needs_an_extra_says_which_in_a_line(core, built, command, extra):
    done = run(built, [core / "bin" / "mog", command])
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"mog: `mog {command}` needs the package ")
    assert done.stderr.endswith(f": pip install 'mog-assets[{extra}]'\n")
