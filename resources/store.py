"""The artefact store: files named by what they hold, and one manifest per artefact that says which of them count.

An artefact lives in a folder of its own. Its files are written beside themselves and moved into place under names that
no earlier version used; `manifest.json` is replaced last. Whatever interrupts a write, a reader sees the old artefact
or the new one. What no manifest names is swept away by the next write.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mog_assets.errors import MissingArtefact, MogError

_MANIFEST = "manifest.json"


def digest(*parts: Any) -> str:
    """SHA-256 in hexadecimal of JSON values, equal for equal values whatever the order of their keys."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 in hexadecimal of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Manifest:
    """What an artefact is: its content (`version`), the `recipe` it was made by, and its files with their checksums."""

    asset: str
    partition: str | None
    version: str
    recipe: str
    inputs: dict[str, str]
    counts: dict[str, float]
    files: dict[str, dict[str, Any]]
    info: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    created: float = 0.0


@dataclass(frozen=True)
class Artefact:
    """A complete artefact: its manifest, and the paths of its files by their logical names."""

    manifest: Manifest
    folder: Path

    def path(self, name: str) -> Path:
        """Path of the file with this logical name."""
        try:
            return self.folder / self.manifest.files[name]["file"]
        except KeyError:
            raise MissingArtefact(f"{describe(self.manifest)} holds no file {name!r}: materialise it again") from None

    def names(self, prefix: str = "") -> list[str]:
        """Logical names that start with `prefix`, sorted."""
        return sorted(name for name in self.manifest.files if name.startswith(prefix))


def describe(manifest: Manifest) -> str:
    """`chunks/level_1 of corpus niddk`, or `router`."""
    return label(manifest.asset, manifest.partition)


def label(asset: str, partition: str | None) -> str:
    """How messages name an artefact."""
    return f"{asset} of corpus {partition}" if partition else asset


class Draft:
    """The artefact being written. Nothing of it is visible to readers before `Store.write` ends."""

    def __init__(self, folder: Path, previous: Artefact | None) -> None:
        self.folder = folder
        self.previous = previous
        self.files: dict[str, str] = {}

    def file(self, name: str, key: str) -> tuple[Path, bool]:
        """The path for a file whose content follows from `key`, and whether it is already there, complete.

        Only a path that is not there may be written, beside itself and then moved (`atomic`).
        """
        stem, dot, suffix = name.partition(".")
        filename = f"{stem}-{key[:16]}{dot}{suffix}"
        self.files[name] = filename
        path = self.folder / filename
        return path, path.exists()

    def path(self, name: str) -> Path:
        """Path of a file that this draft has named."""
        return self.folder / self.files[name]


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; on success it is flushed to disk and moved to `path`, else removed."""
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON beside `path` and move it into place."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True), encoding="utf-8")


class Store:
    """Artefacts under `home/store/<asset>/[<partition>/]`.

    Args:
        home: The folder that holds everything the project makes.
        lock_seconds: How long a writer waits for another one of the same artefact before it fails, naming it.
    """

    def __init__(self, home: Path, lock_seconds: float = 600.0) -> None:
        self.home = home
        self.lock_seconds = lock_seconds

    def folder(self, asset: str, partition: str | None = None) -> Path:
        """Where an artefact lives, whether or not it is there."""
        base = self.home / "store" / asset
        return base / "corpus" / partition if partition else base

    def find(self, asset: str, partition: str | None = None) -> Artefact | None:
        """The artefact, or None where there is no valid manifest or a file it names is missing or has another size."""
        folder = self.folder(asset, partition)
        try:
            manifest = Manifest(**json.loads((folder / _MANIFEST).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        for entry in manifest.files.values():
            path = folder / entry["file"]
            if not path.is_file() or path.stat().st_size != entry["bytes"]:
                return None
        return Artefact(manifest, folder)

    def read(self, asset: str, partition: str | None = None) -> Artefact:
        """The artefact.

        Raises:
            MissingArtefact: it has not been materialised, or not completely.
        """
        artefact = self.find(asset, partition)
        if artefact is None:
            raise MissingArtefact(f"{label(asset, partition)} has not been materialised: run `mog run`")
        return artefact

    def partitions(self, asset: str) -> list[str]:
        """Partitions of an asset that have a folder, sorted."""
        folder = self.folder(asset) / "corpus"
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    @contextmanager
    def lock(self, asset: str, partition: str | None = None) -> Iterator[None]:
        """Hold the right to write an artefact; a second writer waits, then fails naming the holder."""
        folder = self.folder(asset, partition)
        folder.mkdir(parents=True, exist_ok=True)
        with hold(folder / ".lock", label(asset, partition), self.lock_seconds):
            yield

    def draft(self, asset: str, partition: str | None = None) -> Draft:
        """Begin a new version of an artefact; call while holding `lock`."""
        folder = self.folder(asset, partition)
        previous = self.find(asset, partition)
        if previous is None:
            _discard_damaged(folder)
        return Draft(folder, previous)

    def commit(
        self,
        draft: Draft,
        asset: str,
        partition: str | None,
        *,
        recipe: str,
        inputs: dict[str, str],
        counts: dict[str, float],
        info: dict[str, Any],
        seconds: float,
    ) -> Artefact:
        """Make a draft the artefact: checksums, then the manifest, then the sweep of files that no longer count."""
        # A name is never used for other bytes, so what the previous version has checksummed need not be read again.
        known = {e["file"]: e for e in draft.previous.manifest.files.values()} if draft.previous else {}
        files = {}
        for name, filename in sorted(draft.files.items()):
            path = draft.folder / filename
            files[name] = known.get(filename) or {
                "file": filename,
                "bytes": path.stat().st_size,
                "sha256": file_digest(path),
            }
        version = digest({name: entry["sha256"] for name, entry in files.items()}, info.get("content"))
        manifest = Manifest(asset, partition, version, recipe, inputs, counts, files, info, seconds, time.time())
        write_json(draft.folder / _MANIFEST, asdict(manifest))
        _sweep(draft.folder, {_MANIFEST, ".lock", ".lock.holder", *draft.files.values()})
        return Artefact(manifest, draft.folder)

    def remove(self, asset: str, partition: str | None = None) -> None:
        """Remove an artefact, its manifest first."""
        folder = self.folder(asset, partition)
        (folder / _MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def verify(self, artefact: Artefact) -> list[str]:
        """What is wrong with an artefact's files, a sentence each; empty when every checksum holds."""
        faults = []
        for name, entry in artefact.manifest.files.items():
            if file_digest(artefact.folder / entry["file"]) != entry["sha256"]:
                faults.append(f"{describe(artefact.manifest)}: the bytes of {name} are not those of its manifest")
        return faults


def _discard_damaged(folder: Path) -> None:
    """Remove files that are not as the manifest says, so that no draft takes them for complete."""
    try:
        entries = list(json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["files"].values())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        entries = []
    for entry in entries:
        path = folder / str(entry["file"])
        if path.is_file() and file_digest(path) != entry["sha256"]:
            path.unlink()


def _sweep(folder: Path, keep: Iterable[str]) -> None:
    keep = set(keep)
    for entry in folder.iterdir():
        if entry.name not in keep and entry.is_file():
            entry.unlink(missing_ok=True)


@contextmanager
def hold(path: Path, what: str, seconds: float) -> Iterator[None]:
    """Hold a lock file across processes; whoever waits longer than `seconds` is told which process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = path.with_name(path.name + ".holder")
    try:
        with FileLock(path, timeout=seconds):
            holder.write_text(str(os.getpid()), encoding="utf-8")
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
    except Timeout:
        pid = holder.read_text(encoding="utf-8").strip() if holder.exists() else "unknown"
        raise MogError(f"{what} is being written by process {pid}: wait for it or stop it, then run again") from None
