"""Sources of documents other than local files: what they list is copied to a folder, which is read like any other.

A `Source` is registered under its scheme: `source: "toy://shelf"` in the settings of a corpus is read by the source
`toy` at the address `shelf`. Only items of another version are read again, and those that are gone are deleted.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mog_assets import registry
from mog_assets.registry import Registry
from mog_assets.resources.errors import MogError
from mog_assets.resources.writing import atomic

# The file beside the folder of copies that says which version of each item is there.
_VERSIONS = ".versions.json"


@dataclass(frozen=True)
class Source:
    """Where documents come from.

    Attributes:
        items: Given an address, the version of every item by name: a relative path, whose suffix is its format. A
            version is any text that changes with the content, such as an etag or a time.
        read: Given the address and a name, the bytes of an item.
    """

    items: Callable[[str], Mapping[str, str]]
    read: Callable[[str, str], bytes]


SOURCES: Registry[Source] = registry.SOURCES
"""Sources by scheme."""


def listed(corpus: str, address: str) -> dict[str, str]:
    """The version of every item of a source, by name.

    Args:
        corpus: The corpus, for messages.
        address: With its scheme, `toy://shelf`.

    Raises:
        MogError: the source cannot be listed, or names an item that no file can be called.
    """
    scheme, _, place = address.partition("://")
    try:
        items = dict(SOURCES[scheme].items(place))
    except Exception as error:
        raise MogError(_fault(corpus, address, "a list of items", error)) from error
    for name, version in items.items():
        path = PurePosixPath(name) if isinstance(name, str) else PurePosixPath("/")
        hidden = any(part.startswith(".") or "\0" in part or "\\" in part for part in path.parts)
        if path.is_absolute() or not path.parts or hidden or str(path) != name or not isinstance(version, str):
            raise MogError(
                f"corpora.{corpus}.source: expected {address} to list relative paths without hidden parts, each with a "
                f"version as text, got {name!r}: {version!r}"
            )
    return dict(sorted(items.items()))


def synchronised(corpus: str, address: str, folder: Path) -> int:
    """Bring the copies of a source's items up to date; returns how many were read.

    What was copied stays if the source fails midway, and is not read again.

    Args:
        corpus: The corpus, for messages.
        address: See `listed`.
        folder: Where the copies are.

    Raises:
        MogError: as `listed`, or an item cannot be read.
    """
    scheme, _, place = address.partition("://")
    items, file = listed(corpus, address), folder.with_name(folder.name + _VERSIONS)
    versions = _versions(file, address)
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            # Only if it is empty.
            with suppress(OSError):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in items:
            path.unlink()
    count = 0
    try:
        for name, version in items.items():
            path = folder / name
            if versions.get(name) == version and path.is_file():
                continue
            versions.pop(name, None)
            try:
                content = SOURCES[scheme].read(place, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic(path) as temporary:
                    temporary.write_bytes(content)
            except Exception as error:
                raise MogError(_fault(corpus, address, f"to copy {name!r}", error)) from error
            versions[name] = version
            count += 1
    finally:
        kept = {name: versions[name] for name in items if name in versions}
        with atomic(file) as temporary:
            temporary.write_text(json.dumps({"address": address, "versions": kept}), encoding="utf-8")
    return count


def forgotten(folder: Path) -> None:
    """Delete the copies of a source that is not used any more."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.with_name(folder.name + _VERSIONS).unlink(missing_ok=True)


def _versions(file: Path, address: str) -> dict[str, str]:
    """The versions of the copies; none if they are of another address or the file cannot be read."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return dict(stored["versions"]) if stored["address"] == address else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _fault(corpus: str, address: str, what: str, error: Exception) -> str:
    return f"corpora.{corpus}.source: expected {what} from {address}, got {type(error).__name__}: {error}: run again"
