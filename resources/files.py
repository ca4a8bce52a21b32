"""Files of the home folder, which its owner alone can read: written whole, locked, and never lost.

What is in the way of a file is never deleted: the error names it. A write reaches named points, at which tests
interrupt or kill the process; otherwise these do nothing.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from mog_assets.resources.errors import MogError

_log = logging.getLogger(__name__)
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


def make_folder(path: Path) -> None:
    """Make a folder and its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(path, error) from error


def not_writable(path: Path, error: OSError) -> MogError:
    """Return the error for a path that this process cannot write."""
    return MogError(
        f"{path} cannot be written ({error.strerror or error}): give this process the right to write there, or remove "
        "what is in the way, then run `mog run` again"
    )


# It warns where there are no locks of the system: what builds says in a line that it does not run there.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    from filelock import FileLock, Timeout


def orphans(folder: Path, keep: Iterable[str]) -> list[Path]:
    """Return files of a folder that are not in `keep` and that no living process is writing."""
    keep = set(keep)
    return [p for p in folder.iterdir() if p.name not in keep and p.is_file() and not is_being_written(p.name)]


def sweep_orphans(folder: Path) -> None:
    """Delete half-written files of ended processes in a folder that does not belong to an artefact."""
    for entry in folder.glob(".tmp-*"):
        if not is_being_written(entry.name):
            entry.unlink(missing_ok=True)


def is_being_written(name: str) -> bool:
    """Return whether a file is the temporary file of another living process."""
    match = re.match(r"\.tmp-(\d+)-", name)
    return match is not None and int(match[1]) != os.getpid() and alive(int(match[1]))


def alive(pid: int) -> bool:
    """Return whether there is a process with this id."""
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
    """Return the process named in a holder file, and since when it has the lock."""
    try:
        pid, since = (int(part) for part in holder.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return "another process"
    # Left by a killed process; the one that has the lock now has not written its own yet.
    if not alive(pid):
        return "another process"
    return f"process {pid} (since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(since))})"


# All points in the order of a write, with what has just happened there; plugins add theirs.
POINTS = {
    "vectors cached": "a batch of vectors was committed to the encoder's cache",
    "file written": "a file is complete under its temporary name",
    "file moved": "the file has its final name; no manifest names it yet",
    "manifest written": "the manifest is complete under its temporary name",
    "manifest moved": "the new artefact is current; files of the old one stay for an hour",
    "set written": "the set of artefacts that belong together is complete under its temporary name",
    "set moved": "the set is what readers open from now on",
    "swept": "files that no manifest has named for an hour were deleted",
    "manifest removed": "the manifest of an artefact that is being removed was deleted; its files still exist",
}

_interrupt: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Signal that a write has reached a point."""
    assert point in POINTS, point
    if _interrupt is not None:
        _interrupt(point)


def interrupt_with(function: Callable[[str], None] | None) -> None:
    """Call a function at every point of every write of this process; None stops that."""
    global _interrupt
    _interrupt = function


# errno values of a write that is not allowed.
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)

# errno values of a write that finds no room.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic(
    path: Path, what: str = "file", wanted: int | None = None, maker: str = "", private: bool = True
) -> Iterator[Path]:
    """Yield a temporary path to write to; on success it is flushed to disk and renamed to `path`, else deleted.

    Args:
        path: The file to write; an existing file stays until the new one is complete.
        what: Names the points (`mog_assets.resources.files`) that the write reaches.
        wanted: How many bytes will be written, if known.
        maker: Part of the temporary name, for writers on several machines, whose process ids may be equal.
        private: Whether its owner alone can read the file: it may be a copy of one that others cannot.

    Raises:
        MogError: the disk or a quota is full, or the file is too large; the message says how many bytes were needed.
    """
    temporary = path.with_name(f".tmp-{os.getpid()}-{maker}{path.name}")
    try:
        try:
            yield temporary
            with temporary.open("rb") as stream:
                # On Windows, files belong to the rights of their folder.
                if private and hasattr(os, "fchmod"):
                    os.fchmod(stream.fileno(), stat.S_IRUSR | stat.S_IWUSR)
                os.fsync(stream.fileno())
        # Writers raise OSError, or their library's own error.
        except Exception as error:
            if isinstance(error, OSError) and error.errno in FORBIDDEN:
                raise not_writable(path, error) from error
            if not _says_full(error):
                raise
            if wanted is None:
                # The bytes that fit, and at least one more.
                wanted = 1 + (temporary.stat().st_size if temporary.exists() else 0)
            temporary.unlink(missing_ok=True)
            raise disk_full(path, wanted, " ".join(str(error).split())[:200]) from error
        reach(f"{what} written")
        try:
            temporary.replace(path)
        except OSError as error:
            raise not_writable(path, error) from error
        reach(f"{what} moved")
    finally:
        temporary.unlink(missing_ok=True)


def disk_full(path: Path, wanted: int, reason: str) -> MogError:
    """Return the error for a file that does not fit; `wanted` is the least number of bytes that it needs."""
    free = shutil.disk_usage(path.parent).free
    return MogError(
        f"no room to write {path}: expected at least {wanted} bytes, {free} are free ({reason}); existing files are "
        "unchanged: free disk space, or raise the quota or the limit on file sizes, then run `mog run` again"
    )


def _says_full(error: Exception) -> bool:
    # numpy reports how many items it wrote, but not the reason; Rust libraries put the errno into their text.
    text = str(error)
    return (
        (isinstance(error, OSError) and error.errno in FULL)
        or re.search(r"\d+ requested and \d+ written", text) is not None
        or any(f"os error {number})" in text or f"code: {number}," in text for number in FULL)
    )


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power loss (a killed process loses none)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array that `numpy.load` can read and memory-map.

    Raises:
        OSError: it could not be written completely. `numpy.save` (numpy 2.4) does not notice this for the last 4 KiB
            and leaves a truncated file.
    """
    array = np.ascontiguousarray(array)
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        stream.write(array.reshape(-1).view(np.uint8).data)
