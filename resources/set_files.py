"""Files of sets of artefacts: which is the last, and what the files of those that are read hold."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mog_assets.resources.files import make_folder
from mog_assets.resources.holding import sweep_orphans
from mog_assets.resources.manifest import Manifest, decode, digest, encode
from mog_assets.resources.writing import atomic

GRACE = 3600.0
"""Seconds that a file stays after the last manifest that named it."""
TOUCH = 60.0
"""Seconds between two touches of a set that is read."""
READ = 10 * TOUCH
"""Seconds after which a set that was not touched is not read any more."""

_log = logging.getLogger(__name__)
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
    manifests, last = list(manifests), newest(home)
    state = digest([[m.asset, m.partition, m.version, m.created] for m in manifests])[:12]
    if last is not None and last.stem.endswith(state):
        return
    make_folder(home / _FOLDER, home)
    sweep_orphans(home / _FOLDER)
    number = 1 + (0 if last is None else int(last.name.partition("-")[0]))
    data = _BETWEEN.join(map(encode, manifests))
    with atomic(home / _FOLDER / f"{number:08d}-{state}.json", "set", len(data)) as temporary:
        temporary.write_bytes(data)
        # Nobody has read it.
        os.utime(temporary, (0, 0))


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
        with suppress(FileNotFoundError):
            is_read = time.time() - path.stat().st_mtime < READ
            if is_read or (last and path == current):
                # Names are unique, so nothing has to be parsed.
                data = path.read_bytes()
                files.update(file for file, entry in entries.items() if entry in data)
            elif path != current:
                # Before its files go: who comes too late to touch it opens another.
                path.unlink()
    return files


def folder_of(home: Path, asset: str, partition: str | None) -> Path:
    """Return folder of an artefact, existing or not."""
    base = home / "store" / asset
    return base / "corpus" / partition if partition else base


def _files(home: Path) -> list[Path]:
    return [path for path in (home / _FOLDER).glob("*-*.json") if path.name.partition("-")[0].isdigit()]
