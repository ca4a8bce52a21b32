"""What runs on the nodes of a Ray cluster: a process checks that it sees what the run sees, then does jobs."""

from __future__ import annotations

import hashlib
import importlib.util
import socket
from dataclasses import dataclass
from functools import lru_cache
from glob import glob
from importlib import metadata
from pathlib import Path
from typing import Any

import ray
from packaging.requirements import Requirement

from mog_assets.resources.engine import call
from mog_assets.resources.errors import MogError

_DISTRIBUTION = "mog-assets"
# What content depends on: packages that are named without an extra, and those of the extras that build. That `build`
# has `mix` and `openai` does not name their packages.
_BUILDING = ("", "build", "local", "mix", "openai", "topics")
_PACKAGE = "mog_assets"


@dataclass(frozen=True)
class NodeRequirements:
    """Environment that a process on a node must find before it works.

    Attributes:
        versions: Version of every package that content depends on, and a digest of this project's code.
        probe: A file in the shared folder.
        token: What is in it.
    """

    versions: tuple[tuple[str, str], ...]
    probe: str
    token: str


@lru_cache(maxsize=1)
def versions() -> tuple[tuple[str, str], ...]:
    """Return name and version of the packages that this project depends on, of itself, and a digest of its code."""
    values = {}
    for name in [_DISTRIBUTION, *(metadata.requires(_DISTRIBUTION) or ())]:
        requirement = Requirement(name)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in _BUILDING):
            try:
                values[requirement.name] = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                values[requirement.name] = "missing"
    code = hashlib.sha256()
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        # `glob` follows links: in a checkout `resources` is one.
        for path in sorted(glob("**/*.py", root_dir=folder, recursive=True)):
            code.update(Path(path).as_posix().encode() + b"\0" + (Path(folder) / path).read_bytes())
    return (*sorted(values.items()), ("code of mog-assets", code.hexdigest()[:12]))


@lru_cache(maxsize=8)
def agree(terms: NodeRequirements) -> None:
    """Check, once per process, that this node has the same packages and sees the same folder.

    Raises:
        MogError: names the node and what differs.
    """
    wanted, here = dict(terms.versions), dict(versions())
    other = [f"{name} {here.get(name)}, expected {wanted[name]}" for name in wanted if here.get(name) != wanted[name]]
    if other:
        raise MogError(f"engine: {_here()} has {'; '.join(other)}: install the same versions on every node")
    folder = Path(terms.probe).parent
    try:
        read = Path(terms.probe).read_text(encoding="ascii")
    except OSError as error:
        raise MogError(
            f"engine: {_here()} does not see {terms.probe} ({error.strerror}), which was just written: mount the home "
            "folder at the same path on every node, with read-after-write consistency"
        ) from None
    if read != terms.token:
        raise MogError(f"engine: {_here()} sees other files in {folder}: mount the same folder on every node")


def _here() -> str:
    node = ray.get_runtime_context().get_node_id()[:8]
    return f"node {node} ({socket.gethostname()}, {ray.util.get_node_ip_address()})"


def work_on(terms: NodeRequirements, target: str, job: dict[str, Any]) -> tuple[Any, int, str]:
    """Do a job; returns its result, the number of bytes written, and the node."""
    agree(terms)
    result = call(target, job, f"{ray.get_runtime_context().get_worker_id()[:12]}-")
    return result, Path(job["out"]).stat().st_size, _here()


def greet(out: str) -> None:
    """Write a file that shows the process that asks for it what this node can write."""
    try:
        Path(out).write_text(_here(), encoding="utf-8")
    except OSError as error:
        raise MogError(
            f"engine: {_here()} cannot write {Path(out).parent} ({error.strerror}): give it the right to write there"
        ) from None


class Keeper:
    """An actor: a process that does one job after the other and keeps what it has loaded."""

    def ready(self) -> None:
        """Return when the process runs."""

    def work(self, terms: NodeRequirements, target: str, job: dict[str, Any]) -> tuple[Any, int, str]:
        """Do as `work_on`."""
        return work_on(terms, target, job)
