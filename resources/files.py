"""Paths in the home folder, which its owner alone can read: what is in the way is moved aside, never deleted."""

from __future__ import annotations

import logging
import os
import re
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mog_assets.resources.errors import MogError

_log = logging.getLogger(__name__)
# Between the name of a file that was moved aside and a number.
_ASIDE = ".set-aside-"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_home(folder: Path) -> None:
    """Make the home, which its owner alone can read; an existing one is closed to others, with a warning."""
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
    """Rename what is at a path to `NAME.set-aside-1` (or 2, …); an empty folder is removed."""
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()
        return None
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}{_ASIDE}{number}")):
        number += 1
    path.rename(aside)
    return aside


def make_way(path: Path) -> None:
    """Make sure that a file can be written at a path: anything else there, such as a folder, is moved aside."""
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
    """Make a folder and its parents; below `home`, files in the way are moved aside."""
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


# It warns where there are no locks of the system: what builds says in a line that it does not run there.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    from filelock import FileLock, Timeout


def orphans(folder: Path, keep: Iterable[str]) -> list[Path]:
    """Files of a folder that are not in `keep` and that no living process is writing."""
    keep = set(keep)
    return [p for p in folder.iterdir() if p.name not in keep and p.is_file() and not _being_written(p.name)]


def sweep_orphans(folder: Path) -> None:
    """Delete half-written files of ended processes in a folder that does not belong to an artefact."""
    for entry in folder.glob(".tmp-*"):
        if not _being_written(entry.name):
            entry.unlink(missing_ok=True)


def sweep_halves(path: Path) -> None:
    """Delete what ended processes left half-written of one file; the folder may be a user's own."""
    for entry in path.parent.glob(".tmp-*"):
        if re.fullmatch(rf"\.tmp-\d+-{re.escape(path.name)}", entry.name) and not _being_written(entry.name):
            entry.unlink(missing_ok=True)


def _being_written(name: str) -> bool:
    """Whether a file is the temporary file of another living process."""
    match = re.match(r"\.tmp-(\d+)-", name)
    return match is not None and int(match[1]) != os.getpid() and alive(int(match[1]))


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
def hold(path: Path, what: str, seconds: float, tell: Callable[[str], object] | None = None) -> Iterator[None]:
    """Hold a lock file across processes; the error after `seconds` of waiting names the process that holds it.

    The lock is released when the process that holds it ends, however it ends. `tell` is told if there is a wait.

    Raises:
        MogError: another process holds it, or the file cannot be made.
    """
    holder, lock = path.with_name(path.name + ".holder"), FileLock(path, timeout=seconds)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in (path, holder):
            make_way(file)
        try:
            lock.acquire(timeout=0 if tell else None)
        except Timeout:
            if tell is None:
                raise
            tell(f"mog: {what} is being written by {_named(holder)}: waiting for it")
            lock.acquire()
    except Timeout:
        raise MogError(f"{what} is being written by {_named(holder)}: wait for it or stop it, then run again") from None
    except OSError as error:
        raise not_writable(path, error) from error
    try:
        # The holder file only names the process: a full disk is reported by the writes that matter.
        with suppress(OSError):
            holder.write_text(f"{os.getpid()} {time.time():.0f}", encoding="ascii")
        yield
    finally:
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def _named(holder: Path) -> str:
    """The process named in a holder file, and since when it has the lock."""
    try:
        pid, since = (int(part) for part in holder.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return "another process"
    # Left by a killed process; the one that has the lock now has not written its own yet.
    if not alive(pid):
        return "another process"
    return f"process {pid} (since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(since))})"
