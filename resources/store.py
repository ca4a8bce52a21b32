"""The artefact store: files named by what they hold, and one manifest per artefact that says which of them count.

An artefact lives in a folder of its own. Its files are written beside themselves and moved into place under names that
no earlier version used; `manifest.json` is replaced last. Whatever interrupts a write, a reader sees the old artefact
or the new one. What no manifest names is swept away by the next write.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from resources.errors import MissingArtefact, MogError
from resources.points import reach

_MANIFEST = "manifest.json"
# Numbers of the errors that a write meets where there is no room for it.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
def atomic(path: Path, what: str = "file", wanted: int | None = None) -> Iterator[Path]:
    """Yield a path beside `path` to write to; on success it is flushed to disk and moved to `path`, else removed.

    Args:
        path: The file to write; what is there under this name stays until the new file is complete.
        what: Names the points (`resources.points`) that the write reaches.
        wanted: How many bytes will be written, where that is known.

    Raises:
        MogError: the disk or a quota is full, or files may not be so large; says how many bytes were wanted.
    """
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        try:
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
        # Writers raise OSError, or what their library makes of it.
        except Exception as error:
            if not _says_full(error):
                raise
            if wanted is None:
                # What there was room for, and at least one more.
                wanted = 1 + (temporary.stat().st_size if temporary.exists() else 0)
            temporary.unlink(missing_ok=True)
            raise disk_full(path, wanted, " ".join(str(error).split())[:200]) from error
        reach(f"{what} written")
        temporary.replace(path)
        reach(f"{what} moved")
    finally:
        temporary.unlink(missing_ok=True)


def disk_full(path: Path, wanted: int, reason: str) -> MogError:
    """The error for a file that there is no room for; `wanted` is how many bytes there should have been at least."""
    free = shutil.disk_usage(path.parent).free
    return MogError(
        f"no room to write {path}: expected at least {wanted} bytes, {free} are free ({reason}); what was there before "
        "is untouched: make room, or raise the quota or the limit on file sizes, then run `mog run` again"
    )


def _says_full(error: Exception) -> bool:
    # numpy says how many items it could not write and not why; libraries in Rust put the number into their text.
    text = str(error)
    return (
        (isinstance(error, OSError) and error.errno in FULL)
        or re.search(r"\d+ requested and \d+ written", text) is not None
        or any(f"os error {number})" in text or f"code: {number}," in text for number in FULL)
    )


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder outlast a loss of power (a killed process loses none)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        _write_manifest(draft.folder, manifest)
        _sweep(draft.folder, {_MANIFEST, ".lock", ".lock.holder", *draft.files.values()})
        reach("swept")
        return Artefact(manifest, draft.folder)

    def doubt(self, artefact: Artefact) -> None:
        """Have an artefact no longer count as up to date, before something outside the store that it names changes."""
        _write_manifest(artefact.folder, replace(artefact.manifest, recipe=""))

    def remove(self, asset: str, partition: str | None = None) -> None:
        """Remove an artefact, its manifest first."""
        folder = self.folder(asset, partition)
        (folder / _MANIFEST).unlink(missing_ok=True)
        reach("manifest removed")
        shutil.rmtree(folder, ignore_errors=True)

    def verify(self, artefact: Artefact) -> list[str]:
        """What is wrong with an artefact's files, a sentence each; empty when every checksum holds."""
        faults = []
        for name, entry in artefact.manifest.files.items():
            if file_digest(artefact.folder / entry["file"]) != entry["sha256"]:
                faults.append(
                    f"{describe(artefact.manifest)}: the bytes of {name} are not those of its manifest: delete "
                    f"{artefact.folder / entry['file']} and run `mog run`"
                )
        return faults


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    text = json.dumps(asdict(manifest), ensure_ascii=False, indent=1, sort_keys=True).encode("utf-8")
    # No manifest may outlast files that it names, and nobody is told of an artefact that may yet be lost.
    _sync_folder(folder)
    with atomic(folder / _MANIFEST, "manifest", len(text)) as temporary:
        temporary.write_bytes(text)
    _sync_folder(folder)


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
            reach("damaged removed")


def _sweep(folder: Path, keep: Iterable[str]) -> None:
    keep = set(keep)
    for entry in folder.iterdir():
        if entry.name not in keep and entry.is_file() and not _being_written(entry.name):
            entry.unlink(missing_ok=True)


def sweep_orphans(folder: Path) -> None:
    """Remove what processes that are gone left half-written in a folder that is no artefact's."""
    for entry in folder.glob(".tmp-*"):
        if not _being_written(entry.name):
            entry.unlink(missing_ok=True)


def _being_written(name: str) -> bool:
    """Whether a file is the temporary one of another process that is alive."""
    found = re.match(r"\.tmp-(\d+)-", name)
    return found is not None and int(found[1]) != os.getpid() and alive(int(found[1]))


def alive(pid: int) -> bool:
    """Whether there is a process with this id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def hold(path: Path, what: str, seconds: float) -> Iterator[None]:
    """Hold a lock file across processes; whoever waits longer than `seconds` is told which process holds it.

    The lock ends with the process that holds it, however that ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = path.with_name(path.name + ".holder")
    try:
        with FileLock(path, timeout=seconds):
            # It tells who has the lock and is not the lock: a full disk is met, and told, where it matters.
            with suppress(OSError):
                holder.write_text(f"{os.getpid()} {time.time():.0f}", encoding="ascii")
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
    except Timeout:
        raise MogError(f"{what} is being written by {_named(holder)}: wait for it or stop it, then run again") from None


def _named(holder: Path) -> str:
    """The process that a holder file names, and since when it holds the lock."""
    try:
        pid, since = (int(part) for part in holder.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return "another process"
    # Left by a process that was killed; the one that has the lock now has not written its own yet.
    if not alive(pid):
        return "another process"
    return f"process {pid} (since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(since))})"
