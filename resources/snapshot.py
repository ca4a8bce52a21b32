"""Artefacts that stay as they are while a run makes new ones: hard links to their files, in a folder of their own.

A run replaces one artefact after another, and removes files that the new ones do not name. Whoever answers questions
meanwhile must see the artefacts of a corpus all old or all new: those that were made from each other. A run keeps the
old ones (`keeping`) until the new ones are complete, for whoever begins meanwhile.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

from filelock import FileLock, Timeout

from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.files import make_folder, not_writable
from mog_assets.resources.holding import hold
from mog_assets.resources.manifest import MANIFEST, digest
from mog_assets.resources.store import Artefact, Store, label

Place = tuple[str, str | None]
"""An asset and a corpus, None for an asset of all corpora."""

_log = logging.getLogger(__name__)
_FOLDER, _LOCK = "snapshots", ".lock"
# Begins the name of a temporary folder in place of one in a home that cannot be written.
_COPIES = "mog-snapshot-"
# In the folder: the last artefacts that belonged together, while those in the store do not.
_COMPLETE = "complete"
_AGAIN = 0.2
# How often it is tried to keep artefacts while another run replaces some.
_TRIES = 5
# What a file system without hard links answers.
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class SnapshotUnsettled(MogError):
    """Artefacts of a corpus do not belong together: a run is moving them, or was stopped while it did."""


@dataclass(frozen=True)
class Snapshot:
    """Artefacts of one moment.

    Attributes:
        store: Holds them.
        version: A digest of their versions.
        stamps: The state of the manifests that they were taken from; see `stamps`.
        held: Locks the folder; when its process ends, however it ends, others may remove the folder.
        behind: Why they are not the newest; empty if they are.
    """

    store: Store
    version: str
    stamps: dict[Place, tuple[int, ...] | None]
    held: FileLock
    behind: str = ""

    def read(self, asset: str, partition: str | None = None) -> Artefact:
        """An artefact, as `Store.read`."""
        return self.store.read(asset, partition)

    def close(self) -> None:
        """Remove it; files that are mapped stay readable."""
        _remove(self.store.home, self.held)


def stamps(store: Store, places: Iterable[Place]) -> dict[Place, tuple[int, ...] | None]:
    """The state of the manifests of some artefacts; equal as long as none was replaced. None for one that is not there.

    Looks at one file an artefact.
    """

    def state(place: Place) -> tuple[int, ...] | None:
        try:
            status = (store.folder(*place) / MANIFEST).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    return {place: state(place) for place in places}


def take(store: Store, required: Iterable[Place], others: Iterable[Place], patience: float, begins: bool) -> Snapshot:
    """Take the artefacts as they are now.

    Args:
        store: Holds the artefacts that runs replace.
        required: Artefacts that must be there.
        others: Artefacts that are taken if they are there and belong to the required ones.
        patience: Seconds to wait while a run moves artefacts and there are none from before it.
        begins: Whether to take those from before a run that moves them now.

    Raises:
        MissingArtefact: a required one has not been materialised.
        SnapshotUnsettled: those of a corpus still do not belong together after `patience` seconds.
        MogError: the folder cannot be written.
    """
    required, others = list(required), list(others)
    sweep(store.home)
    until = time.monotonic() + patience
    while True:
        now = stamps(store, [*required, *others])
        try:
            return _take(store, store.home, required, others)
        except (SnapshotUnsettled, MissingArtefact, FileNotFoundError) as error:
            if begins:
                with suppress(SnapshotUnsettled, MissingArtefact, FileNotFoundError):
                    earlier = _take(_complete(store), store.home, required, others)
                    return replace(earlier, stamps=now, behind=str(error))
            if isinstance(error, MissingArtefact):
                raise
            if time.monotonic() > until:
                if isinstance(error, SnapshotUnsettled):
                    raise
                raise SnapshotUnsettled(f"artefacts are replaced faster than they can be opened ({error})") from error
        time.sleep(_AGAIN)


def read_matching(store: Store, required: Collection[Place], asset: str, partition: str | None = None) -> Artefact:
    """An artefact, as `Store.read`, unless it was made from others than there are now: it names pieces that are gone.

    Args:
        store: Holds the artefacts that runs replace.
        required: Artefacts that every run brings up to date; they are not compared.
        asset: The asset.
        partition: The corpus, None for an asset of all corpora.

    Raises:
        MissingArtefact: it is not there, or not for what is there now.
    """
    artefact, place = store.read(asset, partition), (asset, partition)
    if place not in required and _binds(place):
        ending = label("", partition)
        sources = [(name.removesuffix(ending), partition) for name in artefact.manifest.inputs if name.endswith(ending)]
        present = {source: stored for source in sources if (stored := store.find(*source)) is not None}
        if fault := _mismatch({**present, place: artefact}, [place]):
            raise MissingArtefact(
                f"{fault}: run `mog run`, or `mog run --select {asset}` if no configured method needs it"
            )
    return artefact


def _take(store: Store, home: Path, required: list[Place], others: list[Place], copy: bool = True) -> Snapshot:
    # Before they are read: what is replaced from now on is seen as a change.
    before = stamps(store, [*required, *others])
    artefacts: dict[Place, Artefact] = {place: store.read(*place) for place in required}
    if fault := _mismatch(artefacts):
        raise SnapshotUnsettled(
            f"{fault}: a run is replacing them, or was stopped while it did; wait for it, or run `mog run`"
        )
    for place in others:
        artefact = store.find(*place)
        # What is out of date is not there: it may name pieces that are gone.
        if artefact is not None and not _mismatch({**artefacts, place: artefact}, [place]):
            artefacts[place] = artefact
    folder, lock = _new(home)
    try:
        for place, artefact in artefacts.items():
            _link(artefact, Store(folder).folder(*place), home, copy)
        if stamps(store, artefacts) != {place: before[place] for place in artefacts}:
            raise FileNotFoundError("an artefact was replaced meanwhile")
    except BaseException:
        _remove(folder, lock)
        raise
    version = digest({label(*place): artefact.manifest.version for place, artefact in artefacts.items()})[:12]
    return Snapshot(Store(folder), version, before, lock)


def _complete(store: Store) -> Store:
    return Store(store.home / _FOLDER / _COMPLETE)


@contextmanager
def keeping(
    store: Store, required: Iterable[Place], others: Iterable[Place], place: Place, changes: bool
) -> Iterator[None]:
    """Around the replacement of an artefact: keep those that belong together now until the new ones do.

    A run that is killed leaves them, and the next one that ends removes them.

    Args:
        store: Holds the artefacts.
        required: Those that questions need.
        others: Those that are kept with them.
        place: What is replaced.
        changes: Whether its content changes.
    """
    required = list(required)
    if place not in required or not _binds(place):
        yield
        return
    folder = _complete(store).home
    make_folder(folder.parent, store.home)
    # Otherwise another run could end between the two, and remove what this one needs.
    with hold(folder.with_name(_COMPLETE + _LOCK), "the last complete set of artefacts", store.lock_seconds):
        if changes:
            _keep(store, required, list(others))
        yield
        _settle(store, required)


def settle(store: Store, required: Iterable[Place]) -> None:
    """Remove what ended processes left: their snapshots, and kept artefacts when those in the store belong together."""
    sweep(store.home)
    folder = _complete(store).home
    if folder.is_dir():
        with hold(folder.with_name(_COMPLETE + _LOCK), "the last complete set of artefacts", store.lock_seconds):
            _settle(store, list(required))


def _settle(store: Store, required: list[Place]) -> None:
    folder = _complete(store).home
    if folder.is_dir() and not _unsettled(store, required):
        shutil.rmtree(folder, ignore_errors=True)


def _keep(store: Store, required: list[Place], others: list[Place]) -> None:
    """Keep the artefacts in the store, if they belong together."""
    folder = _complete(store).home
    for again in reversed(range(_TRIES)):
        try:
            snapshot = _take(store, store.home, required, others, copy=False)
            break
        except (SnapshotUnsettled, MissingArtefact):
            # What is kept already is the last that did.
            return
        except OSError as error:
            # Another run may have replaced an artefact meanwhile.
            if again and isinstance(error, FileNotFoundError):
                continue
            _log.warning("a server that starts during this run waits for its end: artefacts cannot be kept (%s)", error)
            return
    shutil.rmtree(folder, ignore_errors=True)
    snapshot.store.home.rename(folder)
    snapshot.close()


def is_torn(store: Store, required: Iterable[Place]) -> bool:
    """Whether some of these artefacts were made from others than there are now; missing ones do not count."""
    return _mismatch(_present(store, required)) is not None


def _unsettled(store: Store, required: list[Place]) -> bool:
    present = _present(store, required)
    return len(present) < len(set(required)) or _mismatch(present) is not None


def _present(store: Store, places: Iterable[Place]) -> dict[Place, Artefact]:
    return {place: artefact for place in places if (artefact := store.find(*place)) is not None}


def _binds(place: Place) -> bool:
    """Whether an artefact must be of the same documents as the others.

    Models need not: they are trained again when there is time.
    """
    return place[1] is not None


def _mismatch(artefacts: dict[Place, Artefact], of: Iterable[Place] | None = None) -> str | None:
    """What was made from an artefact that is no longer there, in words; None if all belong together."""
    versions = {label(*place): artefact.manifest.version for place, artefact in artefacts.items()}
    for place in of or artefacts:
        if not _binds(place):
            continue
        for source, version in artefacts[place].manifest.inputs.items():
            if source in versions and versions[source] != version:
                return f"{label(*place)} was made from another version of {source}"
    return None


def _link(artefact: Artefact, folder: Path, home: Path, copy: bool) -> None:
    make_folder(folder, home)
    # The manifest last, as in the store itself.
    for name in [*(entry["file"] for _, entry in artefact.manifest.entries()), MANIFEST]:
        source, target = artefact.folder / name, folder / name
        try:
            os.link(source, target)
        except FileExistsError:
            continue
        except OSError as error:
            if not copy or error.errno not in _NO_LINKS:
                raise
            shutil.copy2(source, target)


def _new(home: Path) -> tuple[Path, FileLock]:
    """An empty folder for a snapshot, and its lock, which is held."""
    parent = home / _FOLDER
    if os.access(home, os.W_OK):
        make_folder(parent, home)
    else:
        parent = Path(mkdtemp(prefix=_COPIES))
        _log.warning("%s cannot be written: what is searched is copied to %s until the server ends", home, parent)
    # Host and process may have the same names in two containers that share a home.
    folder = parent / uuid4().hex
    lock = FileLock(parent / f"{folder.name}{_LOCK}", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except OSError as error:
        raise not_writable(parent, error) from error
    folder.mkdir()
    return folder, lock


def _remove(folder: Path, lock: FileLock) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
        if folder.parent.name.startswith(_COPIES):
            folder.parent.rmdir()
    lock.release()


def abandoned(home: Path) -> list[Path]:
    """Snapshots below a home whose process has ended, on whatever machine it ran."""
    faults = []
    for folder in (home / _FOLDER).glob("*"):
        if not folder.is_dir() or folder.name == _COMPLETE:
            continue
        lock = FileLock(folder.with_name(folder.name + _LOCK), timeout=0, thread_local=False)
        with suppress(Timeout, OSError):
            lock.acquire()
            lock.release()
            faults.append(folder)
    return faults


def sweep(home: Path) -> None:
    """Remove the snapshots of processes that have ended."""
    for folder in abandoned(home):
        lock = FileLock(folder.with_name(folder.name + _LOCK), timeout=0, thread_local=False)
        with suppress(Timeout, OSError):
            lock.acquire()
            _remove(folder, lock)
