"""Files that are whole or not there, and what to say where a disk is full."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mog_assets.resources.errors import MogError
from mog_assets.resources.files import not_writable
from mog_assets.resources.points import reach

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
        what: Names the points (`mog_assets.resources.points`) that the write reaches.
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
        temporary.replace(path)
        reach(f"{what} moved")
    finally:
        temporary.unlink(missing_ok=True)


def disk_full(path: Path, wanted: int, reason: str) -> MogError:
    """The error for a file that does not fit; `wanted` is the least number of bytes that it needs."""
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
