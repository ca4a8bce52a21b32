"""The wheel holds all that the command needs, and works in an empty folder away from the repository."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from shared import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names in the built wheel, and the folder it is unpacked in."""
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
        return set(archive.namelist()), folder / "unpacked"


def test_the_wheel_holds_every_file_of_the_packages(wheel):
    names, _ = wheel
    tracked = subprocess.run(
        ["git", "ls-files", "mog_assets", "resources"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    tracked.remove("mog_assets/resources")
    tracked = [f"mog_assets/{name}" if name.startswith("resources/") else name for name in tracked]
    assert "mog_assets/samples/workshop/bread.md" in tracked
    assert set(tracked) - names == set()
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks", "resources"))]


def test_a_folder_named_resources_of_the_user_hides_nothing(wheel, tmp_path):
    theirs = tmp_path / "resources"
    theirs.mkdir()
    (theirs / "__init__.py").write_text("theirs = True\n", encoding="utf-8")
    names = sorted(
        name.removesuffix(".py").replace("/", ".")
        for name in wheel[0]
        if name.startswith("mog_assets/resources/")
        and not name.endswith(("__init__.py", "ray_engine.py", "ray_node.py"))
        if name.endswith(".py")
    )
    assert "mog_assets.resources.store" in names
    imports = ", ".join(["mog_assets.stopping", *names, "resources"])
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
