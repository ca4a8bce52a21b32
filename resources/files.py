"""Places in the home folder: what stands where a file or a folder of ours belongs is moved aside, never deleted."""

from __future__ import annotations

import os
from pathlib import Path

from resources.errors import MogError

# Between the name of what was moved aside and a number.
_ASIDE = ".set-aside-"


def set_aside(path: Path) -> Path | None:
    """Move what stands at a path beside it, to `NAME.set-aside-1` (or 2, …); an empty folder is removed.

    Returns:
        Where it is now; None where it was an empty folder.
    """
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()
        return None
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}{_ASIDE}{number}")):
        number += 1
    path.rename(aside)
    return aside


def is_aside(path: Path) -> bool:
    """Whether a path is one that `set_aside` gave."""
    return _ASIDE in path.name


def make_way(path: Path) -> None:
    """See that a file can be written at a path: a folder, or anything else that is no file, is moved aside.

    Raises:
        MogError: it cannot be moved.
    """
    if os.path.lexists(path) and not path.is_file():
        try:
            set_aside(path)
        except OSError as error:
            raise not_writable(path, error) from error


def make_folder(path: Path, home: Path) -> None:
    """Make a folder and those above it; below `home`, what is no folder and stands in the way is moved aside.

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
    """The error for a place that this process cannot write to."""
    return MogError(
        f"{path} cannot be written ({error.strerror or error}): give this process the right to write there, or remove "
        "what is in the way, then run `mog run` again"
    )
