"""List a corpus folder without opening anything, and open files so that no file can hang or mislead the reader.

A folder may contain anything. Every entry is either a file to read or has a reason why it is not read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mog_assets.config.loading import DEFAULT_CONFIG
from mog_assets.documents.formats import kinds as formats
from mog_assets.documents.formats.kinds import CONTAINERS, FORMATS, GZIP
from mog_assets.resources.errors import MogError
from mog_assets.resources.printable import printable

LINES = (".jsonl", ".jsonl.gz")
ROWS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
# Files of many documents, by what these are.
_MANY = {"lines": LINES, "rows": ROWS}

# Its words would be found instead of those that answer.
_QUESTIONS = "a file of questions of `question_sets`: its lines are no documents"
_KINDS = {
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}
# Kinds of unopened files that get their own row.
_KINDS_LISTED = 20
# A file that changed less than this long before it was read may change again with the same status.
_RACY_NS = 2_000_000_000


def _ends() -> tuple[str, ...]:
    return (*(end for ends in _MANY.values() for end in ends), *CONTAINERS)


def suffixes() -> tuple[str, ...]:
    """Return those of all files that are read, in lower case."""
    return (*formats.suffixes(), *_ends())


def suffix_of(name: str) -> str:
    """Return the suffix that says how a file is read, in lower case; empty if it is not read.

    `.gz` alone is that of a text without another suffix, such as `changelog.gz`; README is read as `.txt`.
    """
    file = name.lower().rpartition("/")[2]
    bare = GZIP if file.endswith(GZIP) and file.count(".") == 1 else ".txt" if file in formats.BARE else ""
    return next((suffix for suffix in suffixes() if file.endswith(suffix)), bare)


class Stamp(NamedTuple):
    """The status of a file, as a proxy for its content: equal stamps that are `settled` mean equal bytes."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Make a stamp from a status."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    def settled(self, now_ns: int) -> bool:
        """Return whether a reading that began at `now_ns` can trust it; git calls the others racy."""
        return now_ns - max(self.mtime_ns, self.ctime_ns) >= _RACY_NS


@dataclass(frozen=True)
class FolderFile:
    """An entry of a corpus.

    Attributes:
        name: Path below the folder, as the file system gives it: bytes that are not UTF-8 are lone surrogates.
        path: The file to open; not a link.
        status: Of the file at `path`.
        refusal: Why it is not read; empty if it is read.
        names: Of all files that share the entry, if it is not one file.
    """

    name: str
    path: str = ""
    status: os.stat_result | None = None
    refusal: str = ""
    names: Sequence[str] = ()

    @property
    def kinds(self) -> Counter[str]:
        """Return how many files the entry stands for, by their last suffixes."""
        return kinds(self.names or (self.name,))

    @property
    def place(self) -> str:
        """The name for display."""
        return printable(self.name)

    @property
    def many(self) -> str:
        """Return what its documents are: `lines`, `rows` of a table, `parts` or `records`; empty: one."""
        name = self.name.lower()
        kind = next((what for what, ends in _MANY.items() if name.endswith(ends)), "")
        container = CONTAINERS.get(os.path.splitext(name)[1])
        return kind or ("" if container is None else "parts" if container.suffix else "records")


def kinds(names: Iterable[str]) -> Counter[str]:
    """Count files by their last suffixes."""
    return Counter(printable(os.path.splitext(name)[1].lower()) or "without suffix" for name in names)


def scan(path: Path, limit: int, questions: Collection[str] = ()) -> list[FolderFile]:
    """Return everything in a corpus, in reading order: by the parts of the name.

    Files and folders whose name starts with a dot are skipped. A link is read if its target is a file in the folder.
    Files of unknown kinds share one entry per kind.

    Raises:
        MogError: the path does not exist, or is a file of another kind.
    """
    try:
        status = path.stat()
    except OSError as error:
        what = "nothing" if isinstance(error, FileNotFoundError) else error.strerror
        raise MogError(
            f"{path}: expected a file ({', '.join(suffixes())}) or a folder of such files, found {what}"
        ) from error
    if stat.S_ISDIR(status.st_mode):
        files = _scan_folder(os.path.realpath(path), limit)
        return [
            replace(f, refusal=_QUESTIONS) if f.path in questions and f.name.lower().endswith(_ends()) else f
            for f in files
        ]
    if not (stat.S_ISREG(status.st_mode) and path.name.lower().endswith(_ends())):
        raise MogError(f"{path}: expected a folder, or a file that ends in {', '.join(_ends())}")
    return [FolderFile(path.name, os.path.realpath(path), status)]


def _scan_folder(root: str, limit: int) -> list[FolderFile]:
    result: list[FolderFile] = []
    strangers: dict[str, list[str]] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                names = [entry.name for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            result.append(FolderFile(folder or ".", refusal=f"folder cannot be listed: {error.strerror}"))
            continue
        for name in names:
            name = f"{folder}/{name}" if folder else name
            file = _look_at(root, name, limit)
            if file.status and not file.refusal and stat.S_ISDIR(file.status.st_mode):
                folders.append(name)
            elif file.refusal or suffix_of(name):
                result.append(file)
            else:
                strangers.setdefault(os.path.splitext(name)[1].lower(), []).append(name)
    return sorted(result + _unknown(strangers), key=lambda f: f.name.split("/"))


def _look_at(root: str, name: str, limit: int) -> FolderFile:
    path, what = os.path.join(root, name), "cannot be accessed"
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            what = "broken link"
            given = os.readlink(path)
            path = os.path.realpath(path, strict=True)
            status = os.lstat(path)
            if os.path.commonpath([root, path]) != root:
                return FolderFile(name, refusal=f"link to a place outside the folder: {printable(given)}")
            if stat.S_ISDIR(status.st_mode):
                return FolderFile(name, refusal=f"link to the folder {printable(given)}: not followed")
    except OSError as error:
        return FolderFile(name, refusal=f"{what}: {error.strerror}")
    if stat.S_ISDIR(status.st_mode):
        return FolderFile(name, path, status)
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
        return FolderFile(name, refusal=f"expected a regular file, got a {kind}: not opened")
    if status.st_size > limit and suffix_of(name) not in ("", *_ends()):
        return FolderFile(name, path, status, too_long(status.st_size, limit))
    return FolderFile(name, path, status, _no_document(name))


def _no_document(name: str) -> str:
    """Return why a file is not read, whatever is in it; empty if it is."""
    if name == DEFAULT_CONFIG:
        return "the settings of a project, no document"
    suffix = os.path.splitext(name)[1].lower()
    return FORMATS[suffix].missing(suffix) if suffix in FORMATS else ""


def too_long(size: int, limit: int) -> str:
    """Return the reason for skipping a document with too many bytes."""
    return f"expected at most {limit} bytes per document (max_document_mb), got {size}: not read"


def _unknown(strangers: dict[str, list[str]]) -> list[FolderFile]:
    kinds = sorted(strangers, key=lambda kind: (-len(strangers[kind]), kind))
    rows = [(f"unknown kind {printable(kind)}" if kind else "no suffix", kind) for kind in kinds]
    result = [_stranger(what, strangers[kind]) for what, kind in rows[:_KINDS_LISTED]]
    if rest := [name for _, kind in rows[_KINDS_LISTED:] for name in strangers[kind]]:
        result.append(_stranger(f"{len(rows) - _KINDS_LISTED} further unknown kinds", rest))
    return result


def _stranger(what: str, names: list[str]) -> FolderFile:
    first = min(names, key=lambda name: name.split("/"))
    more = f" this and {len(names) - 1} more" if len(names) > 1 else ""
    return FolderFile(first, "", None, f"{what}:{more} not opened; docs/documents.md has those that are read", names)


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Yield a regular file, open for reading bytes.

    Raises:
        OSError: it cannot be opened, or is no longer a regular file.
    """
    # Since the folder was listed, a FIFO or a link may have replaced the file: neither may hang or mislead the reader.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(None, "no longer a regular file")
        yield stream


def digest(path: str) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal.

    Raises:
        OSError: as `opened`.
    """
    with opened(path) as stream:
        # A buffered reader, which can more than its type says.
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
