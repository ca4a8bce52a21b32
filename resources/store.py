"""The artefact store: files named by their content, and one manifest per artefact that lists the current ones.

Each artefact has its own folder. Its files are written under temporary names, then renamed to names that no earlier
version used; `manifest.json` is replaced last. If a write is interrupted, readers see the old artefact or the new one.
What no manifest names is deleted by `publishing.sweep`, an hour later.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mog_assets.resources.errors import MissingArtefact
from mog_assets.resources.files import atomic, hold, make_folder, orphans, sync_folder
from mog_assets.resources.manifest import MANIFEST, Manifest, decode, describe, digest, encode, label

_LOCKS = (".lock", ".lock.holder")


def file_digest(path: Path) -> str:
    """Return SHA-256 in hexadecimal of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Artefact:
    """A complete artefact: its manifest, and the paths of its files by their logical names."""

    manifest: Manifest
    folder: Path

    def path(self, name: str) -> Path:
        """Return path of the file with this logical name."""
        try:
            return self.folder / self.manifest.files[name]["file"]
        except KeyError:
            untrained = self.manifest.info.get("untrained")
            why = f"is not trained: {untrained}" if untrained else f"has no file {name!r}: run `mog run`"
            raise MissingArtefact(f"{describe(self.manifest)} {why}") from None

    def names(self, prefix: str = "") -> list[str]:
        """Return logical names that start with `prefix`, sorted."""
        return sorted(name for name in self.manifest.files if name.startswith(prefix))

    def shown(self) -> dict[str, str]:
        """Return its tables and plots: Markdown by title."""
        if self.manifest.shown is None:
            return {}
        try:
            titles: dict[str, str] = json.loads((self.folder / self.manifest.shown["file"]).read_bytes())
            return titles
        except (OSError, ValueError) as error:
            return {"damaged": f"The tables and plots cannot be read ({error}): run `mog verify`."}


class Draft:
    """An artefact being written. Readers see none of it before `Store.commit` ends."""

    def __init__(self, folder: Path, previous: Artefact | None, spent: Collection[str]) -> None:
        self.folder = folder
        self.previous = previous
        self.files: dict[str, str] = {}
        # Names of files of earlier versions, which are never written over, and of damaged ones.
        self._spent = spent

    def file(self, name: str, key: str) -> tuple[Path, bool]:
        """Return the path of a file whose content is determined by `key`, and whether it already exists, complete.

        Write only a path that does not exist, with `atomic`.
        """
        stem, dot, suffix = name.partition(".")
        filename, number = f"{stem}-{key[:16]}{dot}{suffix}", 1
        while filename in self._spent:
            number += 1
            filename = f"{stem}-{key[:16]}-{number}{dot}{suffix}"
        self.files[name] = filename
        path = self.folder / filename
        return path, path.exists()

    def path(self, name: str) -> Path:
        """Return path of a file that was added to this draft."""
        return self.folder / self.files[name]


class Store:
    """Artefacts under `home/store/<asset>/[<partition>/]`.

    Args:
        home: Folder of everything the project makes.
        lock_seconds: How long a writer waits for another writer of the same artefact; then it fails, naming the other.
    """

    def __init__(self, home: Path, lock_seconds: float = 600.0) -> None:
        self.home = home
        self.lock_seconds = lock_seconds
        self._manifests: dict[Path, tuple[tuple[int, int, int], Manifest]] = {}

    def folder(self, asset: str, partition: str | None = None) -> Path:
        """Return folder of an artefact, existing or not."""
        base = self.home / "store" / asset
        return base / "corpus" / partition if partition else base

    def find(self, asset: str, partition: str | None = None) -> Artefact | None:
        """Return artefact, or None if there is no valid manifest, or a file it names is missing or has another size."""
        state = self._look(asset, partition, written_to=False)
        return state if isinstance(state, Artefact) else None

    def sound(self, asset: str, partition: str | None = None) -> Artefact | None:
        """Do as `find`; also None if a file was written to since and its bytes have changed."""
        state = self._look(asset, partition, written_to=True)
        return state if isinstance(state, Artefact) else None

    def damage(self, asset: str, partition: str | None = None) -> str | None:
        """Return what is wrong with an artefact, in a few words; None if it is sound or does not exist."""
        state = self._look(asset, partition, written_to=True)
        return state if isinstance(state, str) else None

    def _look(self, asset: str, partition: str | None, written_to: bool) -> Artefact | str | None:
        """Return the artefact, or what is wrong with it, or None if it does not exist."""
        folder = self.folder(asset, partition)
        try:
            manifest = self._manifest(folder / MANIFEST)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            blocking = next(p for p in (folder, *folder.parents) if os.path.lexists(p))
            return f"{blocking} is a file, expected a folder"
        except OSError as error:
            return f"{MANIFEST} cannot be read ({error.strerror})"
        except ValueError as error:
            return f"{MANIFEST}: {error}"
        if (manifest.asset, manifest.partition) != (asset, partition):
            return f"{MANIFEST} belongs to {describe(manifest)}"
        if fault := _fault(manifest, folder, written_to):
            return fault
        return Artefact(manifest, folder)

    def manifest(self, asset: str, partition: str | None = None) -> Manifest | None:
        """Return the manifest of an artefact, whatever its files are like; None if there is no valid one."""
        try:
            return self._manifest(self.folder(asset, partition) / MANIFEST)
        except (OSError, ValueError):
            return None

    def complete(self, manifest: Manifest) -> Artefact | None:
        """Return artefact of a manifest, the present one or an earlier one; None if a file is missing or damaged."""
        folder = self.folder(manifest.asset, manifest.partition)
        return None if _fault(manifest, folder, written_to=False) else Artefact(manifest, folder)

    def _manifest(self, path: Path) -> Manifest:
        """Return the manifest in a file; parsed again only if the file has changed."""
        cached = self._manifests.get(path)
        if cached is not None and cached[0] == _stamp(path.stat()):
            return cached[1]
        with path.open("rb") as stream:
            stamp = _stamp(os.fstat(stream.fileno()))
            manifest = decode(stream.read())
        self._manifests[path] = stamp, manifest
        return manifest

    def read(self, asset: str, partition: str | None = None) -> Artefact:
        """Return the artefact."""
        artefact = self.find(asset, partition)
        if artefact is None:
            raise MissingArtefact(
                f"{label(asset, partition)} has not been materialised: run `mog run`, or `mog run --select {asset}` if "
                "no configured method needs it"
            )
        return artefact

    def partitions(self, asset: str) -> list[str]:
        """Return partitions of an asset that have a folder, sorted."""
        folder = self.folder(asset) / "corpus"
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []

    def places(self) -> list[tuple[str, str | None]]:
        """Return assets and partitions of all artefacts, whatever made them."""
        base = self.home / "store"
        folders = (path.parent.relative_to(base).as_posix() for path in sorted(base.rglob(MANIFEST)))
        parts = (folder.partition("/corpus/") for folder in folders)
        return [(asset, partition or None) for asset, _, partition in parts]

    @contextmanager
    def lock(self, asset: str, partition: str | None = None) -> Iterator[None]:
        """Hold the write lock of an artefact; a second writer waits, then fails, naming the holder."""
        folder = self.folder(asset, partition)
        make_folder(folder)
        with hold(folder / _LOCKS[0], label(asset, partition), self.lock_seconds):
            yield

    def draft(self, asset: str, partition: str | None = None) -> Draft:
        """Begin a new version of an artefact; call while holding `lock`. Damaged files do not count."""
        folder, manifest = self.folder(asset, partition), self.manifest(asset, partition)
        state = self._look(asset, partition, written_to=True)
        spent = set[str]() if manifest is None else set(manifest.retired)
        if isinstance(state, str):
            # Under a manifest that cannot be read, all may be damaged.
            entries = [] if manifest is None else [entry for _, entry in manifest.entries()]
            spent.update(e["file"] for e in entries if not _holds(folder, e))
            spent.update(os.listdir(folder) if manifest is None else ())
        return Draft(folder, state if isinstance(state, Artefact) else None, spent)

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
        shown: dict[str, str] | None = None,
    ) -> Artefact:
        """Make a draft the artefact: compute checksums, then write the manifest; files of earlier versions stay.

        `shown` (tables and plots, Markdown by title) goes into a separate file that is not part of the content.
        """
        # No file is written over, so checksums of the previous version stay valid.
        before = draft.previous.manifest if draft.previous else None
        entries = {entry["file"]: entry for entry in before.files.values()} if before else {}
        files = {name: entries.get(file) or _entry(draft.folder, file) for name, file in sorted(draft.files.items())}
        version = digest({name: entry["sha256"] for name, entry in files.items()}, info.get("content"))
        picture = _write_shown(draft.folder, shown) if shown else None
        now, earlier = time.time(), before.retired if before else {}
        manifest = Manifest(asset, partition, version, recipe, inputs, counts, files, info, seconds, now, picture)
        retired = {path.name: earlier.get(path.name, now) for path in self.unnamed(draft.folder, manifest)}
        manifest = replace(manifest, retired=retired)
        self._write_manifest(draft.folder, manifest)
        return Artefact(manifest, draft.folder)

    def unnamed(self, folder: Path, manifest: Manifest) -> list[Path]:
        """Return the files in the folder of an artefact that a manifest does not name."""
        return orphans(folder, {MANIFEST, *_LOCKS, *(entry["file"] for _, entry in manifest.entries())})

    def doubt(self, artefact: Artefact) -> None:
        """Mark an artefact as out of date, before data outside the store that it names changes."""
        self._write_manifest(artefact.folder, replace(artefact.manifest, recipe=""))

    def note(self, artefact: Artefact, **info: Any) -> Artefact:
        """Add facts to an artefact whose content stays as it is; call while holding its lock."""
        manifest = replace(artefact.manifest, info={**artefact.manifest.info, **info})
        self._write_manifest(artefact.folder, manifest)
        return Artefact(manifest, artefact.folder)

    def verify(self, artefact: Artefact) -> list[str]:
        """Return what is wrong with an artefact's files, one sentence each; empty if every checksum matches.

        The modification time of a damaged file is set to now, so that the next plan sees it without reading every file.
        """
        faults = []
        for name, entry in artefact.manifest.entries():
            if not _holds(artefact.folder, entry):
                path = artefact.folder / entry["file"]
                with suppress(OSError):
                    os.utime(path)
                faults.append(f"{describe(artefact.manifest)}: {name} has changed since it was written: run `mog run`")
        return faults

    def _write_manifest(self, folder: Path, manifest: Manifest) -> None:
        data, path = encode(manifest), folder / MANIFEST
        # After a power loss, no manifest may name lost files, and no artefact that was reported may be missing.
        sync_folder(folder)
        with atomic(path, "manifest", len(data)) as temporary:
            temporary.write_bytes(data)
        self._manifests.pop(path, None)
        sync_folder(folder)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    """Return a value that changes when the file changes."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def _entry(folder: Path, file: str) -> dict[str, Any]:
    """Return the manifest entry of a file."""
    path = folder / file
    return {"file": file, "bytes": path.stat().st_size, "sha256": file_digest(path)}


def _fault(manifest: Manifest, folder: Path, written_to: bool) -> str | None:
    """Return what is wrong with a file of an artefact; `written_to`: compare the bytes of those written to since."""
    for name, entry in manifest.entries():
        if fault := _file_fault(folder / entry["file"], entry, manifest.created if written_to else None):
            return f"{name} {fault}"
    return None


def _holds(folder: Path, entry: dict[str, Any]) -> bool:
    """Return whether a file's bytes match its manifest entry."""
    try:
        return file_digest(folder / entry["file"]) == entry["sha256"]
    except OSError:
        return False


def _file_fault(path: Path, entry: dict[str, Any], written: float | None) -> str | None:
    """Return what is wrong with a file of an artefact.

    Args:
        path: Of the file.
        entry: Its manifest entry.
        written: When the manifest was written; the bytes of files written to since are compared. None compares none.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not stat.S_ISREG(status.st_mode):
        return "is a folder, expected a file" if stat.S_ISDIR(status.st_mode) else "is not a regular file"
    if status.st_size != entry["bytes"]:
        return f"has {status.st_size} bytes, expected {entry['bytes']}"
    if not os.access(path, os.R_OK):
        return "cannot be read (Permission denied)"
    if written is None or status.st_mtime <= written:
        return None
    if not _holds(path.parent, entry):
        return "has changed since it was written"
    # For example a copy: the new time saves reading it again.
    with suppress(OSError):
        os.utime(path, (status.st_atime, int(written)))
    return None


def _write_shown(folder: Path, shown: dict[str, str]) -> dict[str, Any]:
    data = json.dumps(shown, ensure_ascii=False, sort_keys=False).encode("utf-8", "backslashreplace")
    path = folder / f"shown-{hashlib.sha256(data).hexdigest()[:16]}.json"
    with atomic(path, wanted=len(data)) as temporary:
        temporary.write_bytes(data)
    return _entry(folder, path.name)
