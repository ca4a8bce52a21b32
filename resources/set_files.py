"""Files of sets of artefacts: which is the last, and what the files of those that are read hold."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mog_assets.resources.files import hold, make_folder, sweep_orphans
from mog_assets.resources.manifest import Manifest, decode, digest, encode
from mog_assets.resources.writing import atomic

GRACE = 3600.0
"""Seconds that a file stays after the last manifest that named it."""
TOUCH = 60.0
"""Seconds between two touches of a set that is read."""
READ = 10 * TOUCH
"""Seconds after which a set that was not touched is not read any more."""

_log = logging.getLogger(__name__)
# Seconds to wait for who publishes a set.
_WAIT = 60.0
_FOLDER = "sets"
# Between two manifests of a set's file; JSON has no empty line.
_BETWEEN = b"\n\n"


def newest(home: Path) -> Path | None:
    """Return the file of the last set that was published below a home; None if there is none."""
    return max(_files(home), default=None)


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
    make_folder(home / _FOLDER, home)
    # Steps of Dagster and runs of several machines publish, too.
    with hold(home / _FOLDER / ".lock", "the sets of artefacts", _WAIT):
        last = newest(home)
        if _is_last(home, state):
            return
        # Nobody else writes here now.
        sweep_orphans(home / _FOLDER)
        number = 1 + (0 if last is None else int(last.name.partition("-")[0]))
        data = _BETWEEN.join(map(encode, manifests))
        with atomic(home / _FOLDER / f"{number:08d}-{state}.json", "set", len(data)) as temporary:
            temporary.write_bytes(data)
            # Nobody has read it.
            os.utime(temporary, (0, 0))


def _is_last(home: Path, state: str) -> bool:
    """Return whether the last set is of a state, and can be read."""
    last = newest(home)
    if last is None or not last.stem.endswith(state):
        return False
    with suppress(OSError, ValueError):
        return bool(read_set(last))
    return False


def touch_set(path: Path) -> bool:
    """Say that a set is read, so that its files stay; False if it is gone."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        _log.debug("%s cannot be touched (%s): what is read stays for an hour", path, error)
    return True


def held(home: Path, paths: Iterable[Path], last: bool = True) -> set[Path]:
    """Return those of some files that the last set names, or one that is read; other sets are removed.

    Args:
        home: Of the project.
        paths: The files.
        last: Whether the last set holds files even if nobody reads it.
    """
    entries = {path: f'"file": {json.dumps(path.name, ensure_ascii=False)}'.encode() for path in paths}
    files, current = set[Path](), newest(home)
    for path in _files(home) if entries else ():
        try:
            unread = not (last and path == current) and not _is_read(path)
            # Before its files go: who comes too late to touch it opens another.
            if unread and (path == current or _removed(path)):
                continue
            # Names are unique, so nothing has to be parsed.
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            _log.warning("%s cannot be read (%s): all that it may name stays", path, error)
            return set(entries)
        files.update(file for file, entry in entries.items() if entry in data)
    return files


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


def folder_of(home: Path, asset: str, partition: str | None) -> Path:
    """Return folder of an artefact, existing or not."""
    base = home / "store" / asset
    return base / "corpus" / partition if partition else base


def published(home: Path) -> list[Path]:
    """Return the files of all sets that are there, the last first."""
    return sorted(_files(home), reverse=True)


def _files(home: Path) -> list[Path]:
    return [path for path in (home / _FOLDER).glob("*-*.json") if path.name.partition("-")[0].isdigit()]
