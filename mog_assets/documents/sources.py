"""Sources of documents other than local files: what they list is copied to a folder, which is read like any other.

A `Source` is registered under its scheme: `source: "toy://shelf"` in the settings of a corpus is read by the source
`toy` at the address `shelf`. Only items of another version are read again, and those that are gone are deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mog_assets import registry
from mog_assets.registry import Registry
from mog_assets.resources.errors import MogError
from mog_assets.resources.files import atomic

# Where rows are the documents: they are in so many items by a hash of their ids, each a `.jsonl` file, so that one that
# changes changes one item. Reading remembers lines: the others of the item are not read again.
PARTS = 256


def part_of(identity: str) -> int:
    """Return the part that a document belongs to, 0 … `PARTS` − 1."""
    return hashlib.sha256(identity.encode()).digest()[0] % PARTS


def name_of(part: int) -> str:
    """Return the name of the item."""
    return f"{part:02x}.jsonl"


def number_of(name: str) -> int:
    """Return the part of an item's name."""
    return int(name.removesuffix(".jsonl"), 16)


# The file beside the folder of copies that says which version of each item is there.
_VERSIONS = ".versions.json"
# A kill loses what was copied since then.
_KEEP_SECONDS = 1.0


class Item(NamedTuple):
    """An item, as its source describes it.

    Attributes:
        version: Any text that changes with the content, such as an etag or a time.
        modified: When it was changed last, in seconds since 1970, if the source knows.
        refusal: Why it is not read; it then may have any name. Empty if it is.
    """

    version: str
    modified: float | None = None
    refusal: str = ""


class Refusal(Exception):
    """An item cannot be read and others can: it is skipped, with this as the reason."""


class Copied(NamedTuple):
    """Outcome of copying a source's items.

    Attributes:
        read: How many were read.
        refused: Those that were not, by name, with the reason.
    """

    read: int
    refused: dict[str, str]


# How stores say that they do not know who calls, or do not let them.
_DENIED = re.compile(
    r"credential|denied|forbidden|unauthori[sz]ed|InvalidAccessKey|Signature|anonymous|account.?name|\b40[13]\b", re.I
)


@dataclass(frozen=True)
class Source:
    """A source of documents.

    Attributes:
        items: Given an address, every item by name, a relative path, whose suffix is its format; or the version alone.
        read: Given the address and a name, the bytes of an item, whole or in pieces.
        together: How many items are read at a time, each in a thread.
        prepare: Called with the address and the names of all items that will be read, before they are.
        access: Variables of the environment that say who calls.
        is_file: Whether the place of an address is a file, by its path.
    """

    items: Callable[[str], Mapping[str, Item | str]]
    read: Callable[[str, str], bytes | Iterable[bytes]]
    together: int = 1
    prepare: Callable[[str, Sequence[str]], None] | None = None
    access: str = ""
    is_file: bool = False


SOURCES: Registry[Source] = registry.SOURCES
"""Sources by scheme."""


def listed(corpus: str, address: str) -> dict[str, Item]:
    """Return the items of a source, by name.

    Raises:
        MogError: the source cannot be listed, or names an item that no file can be called.
    """
    scheme, _, place = address.partition("://")
    try:
        items = {
            name: Item(item) if isinstance(item, str) else item for name, item in SOURCES[scheme].items(place).items()
        }
    except Exception as error:
        raise MogError(_fault(corpus, address, "a list of items", error)) from error
    for name, item in items.items():
        named = is_name(name) or (isinstance(item, Item) and item.refusal)
        if not (named and isinstance(item, Item) and isinstance(item.version, str)):
            raise MogError(
                f"corpora.{corpus}.source: expected {address} to list relative paths without hidden parts, each with a "
                f"version as text, got {name!r}: {item!r}"
            )
    return dict(sorted(items.items()))


def is_name(name: object) -> bool:
    """Return whether an item may have a name: a relative path without hidden parts."""
    if not isinstance(name, str):
        return False
    path = PurePosixPath(name)
    hidden = any(part.startswith(".") or "\0" in part or "\\" in part for part in path.parts)
    return bool(path.parts) and not path.is_absolute() and not hidden and str(path) == name


def synchronised(corpus: str, address: str, folder: Path) -> Copied:
    """Bring the copies of a source's items up to date.

    What was copied stays if the source fails midway, and is not read again.

    Raises:
        MogError: as `listed`, or an item cannot be read.
    """
    scheme, _, place = address.partition("://")
    every, file = listed(corpus, address), folder.with_name(folder.name + _VERSIONS)
    items = {name: item for name, item in every.items() if not item.refusal}
    refused = {name: item.refusal for name, item in every.items() if item.refusal}
    versions = _versions(file, address)
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            # Only if it is empty.
            with suppress(OSError):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in items:
            path.unlink()
    changed = [name for name in items if versions.get(name) != items[name].version or not (folder / name).is_file()]
    for name in changed:
        versions.pop(name, None)
    source, saved = SOURCES[scheme], time.monotonic()
    if changed and source.prepare is not None:
        try:
            source.prepare(place, changed)
        except Exception as error:
            raise MogError(_fault(corpus, address, f"to copy {len(changed)} items", error)) from error
    pool = ThreadPoolExecutor(source.together)

    def keep() -> None:
        stored = {name: versions[name] for name in items if name in versions}
        with atomic(file) as temporary:
            temporary.write_text(json.dumps({"address": address, "versions": stored}), encoding="utf-8")

    copies = {pool.submit(_copy, source, place, name, folder / name, items[name].modified): name for name in changed}
    try:
        for copy in as_completed(copies):
            name = copies[copy]
            try:
                copy.result()
            except Refusal as error:
                refused[name] = str(error)
                (folder / name).unlink(missing_ok=True)
                continue
            except Exception as error:
                raise MogError(_fault(corpus, address, f"to copy {name!r}", error)) from error
            versions[name] = items[name].version
            if time.monotonic() - saved > _KEEP_SECONDS:
                keep()
                saved = time.monotonic()
    finally:
        # Those that were being copied when another failed are there, too.
        pool.shutdown(cancel_futures=True)
        done = [name for copy, name in copies.items() if not copy.cancelled() and copy.exception() is None]
        versions |= {name: items[name].version for name in done}
        keep()
    return Copied(len(changed), refused)


def _copy(source: Source, place: str, name: str, path: Path, modified: float | None) -> None:
    content = source.read(place, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        with temporary.open("wb") as stream:
            for piece in (content,) if isinstance(content, bytes) else content:
                stream.write(piece)
        # Not when it was copied: a rebuild would have another time. Zero is taken for none.
        os.utime(temporary, (modified or 0.0, modified or 0.0))


def forgotten(folder: Path) -> None:
    """Delete the copies of a source that is not used any more."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.with_name(folder.name + _VERSIONS).unlink(missing_ok=True)


def _versions(file: Path, address: str) -> dict[str, str]:
    """Return the versions of the copies; none if they are of another address or the file cannot be read."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return dict(stored["versions"]) if stored["address"] == address else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _fault(corpus: str, address: str, what: str, error: Exception) -> str:
    got, access = f"{type(error).__name__}: {error}", SOURCES[address.partition("://")[0]].access
    remedy = f"set {access} in the environment, then run again" if access and _DENIED.search(got) else "run again"
    return f"corpora.{corpus}.source: expected {what} from {address}, got {got}: {remedy}"
