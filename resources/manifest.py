"""The manifest of an artefact: what it is, what it was made by, and its files with their checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


def digest(*parts: Any) -> str:
    """SHA-256 in hexadecimal of JSON values, equal for equal values whatever the order of their keys."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Manifest:
    """What an artefact is: its content (`version`), the `recipe` it was made by, and its files with their checksums.

    Attributes:
        asset: Its key.
        partition: The corpus, None for an artefact of all corpora.
        version: Follows from the content alone.
        recipe: Fingerprint of what it was made by; empty where it no longer counts as up to date.
        inputs: Versions of the artefacts it was made from.
        counts: Figures about it.
        files: By logical name: `file` (name in the folder), `bytes` and `sha256`.
        info: Further facts, as JSON values.
        seconds: That it took to make.
        created: When it was complete, in seconds since 1970; its files are not written to afterwards.
        shown: The file of what people look at, an entry as in `files`; no part of the content. None where there is
            nothing to show, or where it was made before 2026-12 and holds it as `info["shown"]`.
    """

    asset: str
    partition: str | None
    version: str
    recipe: str
    inputs: dict[str, str]
    counts: dict[str, float]
    files: dict[str, dict[str, Any]]
    info: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    created: float = 0.0
    shown: dict[str, Any] | None = None

    def entries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name and entry of every file."""
        yield from self.files.items()
        if self.shown is not None:
            yield "shown.json", self.shown


def describe(manifest: Manifest) -> str:
    """`chunks/level_1 of corpus niddk`, or `router`."""
    return label(manifest.asset, manifest.partition)


def label(asset: str, partition: str | None) -> str:
    """How messages name an artefact."""
    return f"{asset} of corpus {partition}" if partition else asset


def encode(manifest: Manifest) -> bytes:
    """The bytes of the file: JSON, with a checksum of the rest as `seal`."""
    found = json.loads(json.dumps(asdict(manifest)))
    found["seal"] = digest(found)
    return json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True).encode("utf-8")


def decode(data: bytes) -> Manifest:
    """The manifest in the bytes of a file. One without a seal, as versions before 2026-12 wrote it, is taken as it is.

    Raises:
        ValueError: it is no manifest, or has changed since it was written.
    """
    try:
        found = json.loads(data)
        seal = found.pop("seal", None)
        manifest = Manifest(**found)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError("it is no manifest") from None
    if seal is not None and seal != digest(found):
        raise ValueError("it has changed since it was written")
    if not _well_formed(manifest):
        raise ValueError("it is no manifest")
    return manifest


def _well_formed(manifest: Manifest) -> bool:
    texts = (manifest.asset, manifest.version, manifest.recipe, manifest.partition or "")
    tables = (manifest.inputs, manifest.counts, manifest.files, manifest.info)
    if not (all(isinstance(text, str) for text in texts) and all(isinstance(table, dict) for table in tables)):
        return False
    if not all(isinstance(number, (int, float)) for number in (manifest.seconds, manifest.created)):
        return False
    return all(isinstance(entry, dict) and _is_entry(entry) for _, entry in manifest.entries())


def _is_entry(entry: dict[str, Any]) -> bool:
    file = entry.get("file")
    return (
        isinstance(file, str)
        # Beside the manifest and nowhere else.
        and Path(file).name == file != ".."
        and "\0" not in file
        and isinstance(entry.get("bytes"), int)
        and isinstance(entry.get("sha256"), str)
    )
