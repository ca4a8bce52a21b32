"""Paths in the home folder, which its owner alone can read: what is in the way is moved aside, never deleted."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from mog_assets.resources.errors import MogError

_log = logging.getLogger(__name__)
# Between the name of a file that was moved aside and a number.
_ASIDE = ".set-aside-"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_home(folder: Path) -> None:
    """Make the home, which its owner alone can read; an existing one is closed to others, with a warning.

    Raises:
        MogError: it cannot be made.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        mode = stat.S_IMODE(folder.stat().st_mode)
    except OSError as error:
        raise MogError(
            f"home: expected a writable folder, got {folder} ({error.strerror}): name another, "
            "or give this process write permission"
        ) from error
    if not mode & _OTHERS:
        return
    with suppress(OSError):
        folder.chmod(mode & ~_OTHERS)
    # Some file systems take the change and leave the mode as it was.
    if folder.stat().st_mode & _OTHERS:
        _log.warning(
            "%s: expected a folder that its owner alone can read, got mode %o, which this process cannot change: "
            "have its owner run `chmod go= %s`",
            folder,
            mode,
            folder,
        )
    else:
        _log.warning("%s holds copies of documents and questions: from now on its owner alone can read it", folder)


def set_aside(path: Path) -> Path | None:
    """Rename what is at a path to `NAME.set-aside-1` (or 2, …); an empty folder is removed.

    Returns:
        Its new path; None if it was an empty folder.
    """
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()
        return None
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}{_ASIDE}{number}")):
        number += 1
    path.rename(aside)
    return aside


def make_way(path: Path) -> None:
    """Make sure that a file can be written at a path: anything else there, such as a folder, is moved aside.

    Raises:
        MogError: it cannot be moved.
    """
    if _in_the_way(path):
        try:
            set_aside(path)
        except FileNotFoundError:
            # Another process has moved it.
            return
        except OSError as error:
            raise not_writable(path, error) from error


def _in_the_way(path: Path) -> bool:
    # One look: another process may remove a file of its own, or make it again, between two.
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        # A link that leads nowhere, or nothing.
        return os.path.islink(path)


def make_folder(path: Path, home: Path) -> None:
    """Make a folder and its parents; below `home`, files in the way are moved aside.

    Raises:
        MogError: the folder cannot be made.
    """
    try:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            blocking = next(p for p in (path, *path.parents) if os.path.lexists(p) and not p.is_dir())
            if home not in blocking.parents:
                raise
            set_aside(blocking)
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(path, error) from error


def not_writable(path: Path, error: OSError) -> MogError:
    """The error for a path that this process cannot write."""
    return MogError(
        f"{path} cannot be written ({error.strerror or error}): give this process the right to write there, or remove "
        "what is in the way, then run `mog run` again"
    )
