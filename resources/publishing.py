"""Sets of artefacts that belong together: what a run publishes when it is done, and what whoever searches opens.

A run replaces one artefact after another; whoever searches must see those of a corpus all old or all new. So a run ends
as a commit does, with a manifest: once the artefacts that searches read were made from each other, their manifests are
written together into one new file, `sets/NUMBER-STATE.json`.

Files are never written over, and a commit deletes none. What no manifest names any more stays an hour, and as long as a
set names it that is the last one or that somebody reads. Who reads says so by touching the set's file: no lock, no file
per reader, nothing to clean up after one that was killed, and the same on every file system.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.files import atomic, hold, make_folder, reach, sweep_orphans
from mog_assets.resources.manifest import MANIFEST, Manifest, decode, digest, encode, label
from mog_assets.resources.store import Artefact, Store

Place = tuple[str, str | None]
"""An asset and a corpus, None for an asset of all corpora."""
GRACE = 3600.0
"""Seconds that a file stays after the last manifest that named it."""
READ = 600.0
"""Seconds after which a set that was not touched is not read any more: who reads it touches it every minute."""

_log = logging.getLogger(__name__)
# Seconds to wait for who publishes a set.
_WAIT = 60.0
_FOLDER = "sets"
# Between two manifests of a set's file; JSON has no empty line.
_BETWEEN = b"\n\n"


class ArtefactsDisagree(MogError):
    """Artefacts were made from others than there are now: a run is replacing them, or was stopped while it did."""


def publish(store: Store, required: Iterable[Place], others: Iterable[Place]) -> None:
    """Write the set of the artefacts as they are now, if they were made from each other and are not the last set.

    A corpus that lacks some is not of the set: it is new, and the others go on.
    """
    required = list(required)
    lacking = {corpus for asset, corpus in required if store.manifest(asset, corpus) is None}
    if None in lacking or lacking >= {corpus for _, corpus in required} - {None}:
        return
    required, others = ([place for place in part if place[1] not in lacking] for part in (required, others))
    try:
        manifests = agreeing(store.manifest, required, others).values()
    except (ArtefactsDisagree, MissingArtefact):
        return
    write_set(store.home, manifests)


def agreeing(
    find: Callable[[str, str | None], Manifest | None], required: Sequence[Place], others: Iterable[Place]
) -> dict[Place, Manifest]:
    """Return the manifests of artefacts that were made from each other."""
    manifests: dict[Place, Manifest] = {}
    for place in required:
        manifest = find(*place)
        if manifest is None:
            raise MissingArtefact(f"{label(*place)} has not been materialised: run `mog run`")
        manifests[place] = manifest
    versions = {label(*place): manifest.version for place, manifest in manifests.items()}
    for place, manifest in manifests.items():
        if source := _other_source(manifest, versions):
            raise ArtefactsDisagree(
                f"{label(*place)} was made from another version of {source}: a run is replacing them, or was stopped "
                "while it did; wait for it, or run `mog run`"
            )
    for place in others:
        manifest = find(*place)
        # Models need not be of the same documents: they are trained again when there is time. What else is out of date
        # is not there: it may name pieces that are gone.
        if manifest is not None and (place[1] is None or not _other_source(manifest, versions)):
            manifests[place] = manifest
            versions[label(*place)] = manifest.version
    return manifests


def _other_source(manifest: Manifest, versions: dict[str, str]) -> str | None:
    """Return what an artefact was made from of which there is another version now."""
    return next((source for source, v in manifest.inputs.items() if versions.get(source, v) != v), None)


def published(home: Path) -> list[Path]:
    """Return the files of all sets that are below a home, the last first."""
    files = (home / _FOLDER).glob("*-*.json")
    return sorted((path for path in files if path.name.partition("-")[0].isdigit()), reverse=True)


def newest(home: Path) -> Path | None:
    """Return the file of the last set that was published below a home; None if there is none."""
    return next(iter(published(home)), None)


def read_set(path: Path) -> list[Manifest]:
    """Return the manifests of a set.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged.
    """
    return [decode(data) for data in path.read_bytes().split(_BETWEEN)]


def write_set(home: Path, manifests: Iterable[Manifest]) -> None:
    """Publish a set, unless it is the last one."""
    manifests = list(manifests)
    state = digest([[m.asset, m.partition, m.version, m.created] for m in manifests])[:12]
    if _is_last(home, state):
        return
    make_folder(home / _FOLDER)
    # Steps of Dagster and runs of several machines publish, too.
    with hold(home / _FOLDER / ".lock", "the sets of artefacts", _WAIT):
        if _is_last(home, state):
            return
        # Nobody else writes here now.
        sweep_orphans(home / _FOLDER)
        number = 1 + max((int(path.name.partition("-")[0]) for path in published(home)), default=0)
        data = _BETWEEN.join(map(encode, manifests))
        with atomic(home / _FOLDER / f"{number:08d}-{state}.json", "set", len(data)) as temporary:
            temporary.write_bytes(data)
            # Nobody has read it.
            os.utime(temporary, (0, 0))


def _is_last(home: Path, state: str) -> bool:
    """Return whether the last set is of a state, and can be read."""
    last = newest(home)
    with suppress(OSError, ValueError):
        return last is not None and last.stem.endswith(state) and bool(read_set(last))
    return False


def unused(store: Store, artefact: Artefact, grace: float) -> list[Path]:
    """Return the files in the folder of an artefact that nobody needs; call while holding its lock.

    Args:
        store: Of the artefact.
        artefact: The artefact.
        grace: Seconds since a manifest last named them. What was begun and never named, such as that of a run that
            was stopped, stays for the next run, except with 0, and what was half-written.
    """
    now, retired = time.time(), artefact.manifest.retired
    paths = [
        path
        for path in store.unnamed(artefact.folder, artefact.manifest)
        if not grace or path.name.startswith(".tmp-") or (path.name in retired and now - retired[path.name] >= grace)
    ]
    return _unread(store.home, paths)


def sweep(store: Store, artefact: Artefact) -> None:
    """Delete the files in the folder of an artefact that nobody needs any more; call while holding its lock."""
    for path in unused(store, artefact, GRACE):
        path.unlink(missing_ok=True)
        reach("swept")


def remove(store: Store, asset: str, partition: str | None = None) -> None:
    """Remove an artefact, its manifest first; what somebody reads stays for the next time."""
    folder = store.folder(asset, partition)
    if not (folder / MANIFEST).is_dir():
        (folder / MANIFEST).unlink(missing_ok=True)
    reach("manifest removed")
    for path in removable(store, folder):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def removable(store: Store, folder: Path) -> list[Path]:
    """Return what is in the folder of an artefact, and nobody reads."""
    return _unread(store.home, list(folder.iterdir()) if folder.is_dir() else [], last=False)


def _unread(home: Path, paths: Sequence[Path], last: bool = True) -> list[Path]:
    """Return those of some files that no set which is read names; other sets are removed.

    Args:
        home: Of the project.
        paths: The files.
        last: Whether the last set is read even if nobody does.
    """
    entries = {path: f'"file": {json.dumps(path.name, ensure_ascii=False)}'.encode() for path in paths}
    sets = published(home) if entries else []
    for path in sets:
        try:
            unread = not (last and path == sets[0]) and not _is_read(path)
            # Before its files go: who comes too late to touch it opens another.
            if unread and (path == sets[0] or _removed(path)):
                continue
            # Names are unique, so nothing has to be parsed.
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            _log.warning("%s cannot be read (%s): all that it may name stays", path, error)
            return []
        entries = {file: entry for file, entry in entries.items() if entry not in data}
    return list(entries)


def _is_read(path: Path) -> bool:
    """Return whether somebody has touched a set lately."""
    return time.time() - path.stat().st_mtime < READ


def _removed(path: Path) -> bool:
    """Remove a set that nobody reads; return False if somebody has touched it meanwhile, and leave it."""
    aside = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    path.rename(aside)
    if _is_read(aside):
        aside.rename(path)
        return False
    aside.unlink()
    return True
