"""The manifest of an artefact: its name, how it was made, and its files with their checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


def digest(*parts: Any) -> str:
    """Return SHA-256 in hexadecimal of JSON values; the order of keys does not matter."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Manifest:
    """An artefact's content (`version`), the `recipe` that made it, and its files with their checksums.

    Attributes:
        asset: Its key.
        partition: The corpus, None for an artefact of all corpora.
        version: Depends on the content alone.
        recipe: Fingerprint of how it was made; empty if it is out of date.
        inputs: Versions of the artefacts it was made from.
        counts: Figures about it.
        files: By logical name: `file` (name in the folder), `bytes` and `sha256`.
        info: Further facts, as JSON values.
        seconds: Build time.
        created: When it was complete, in seconds since 1970; its files are not modified afterwards.
        shown: Entry, as in `files`, of the file with tables and plots; not part of the content. None if there are none,
        retired: Files in the folder that belong to earlier versions, and when they came to do so.
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
    retired: dict[str, float] = field(default_factory=dict)

    def entries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield name and entry of every file."""
        yield from self.files.items()
        if self.shown is not None:
            yield "shown.json", self.shown


def describe(manifest: Manifest) -> str:
    """Return `chunks/level_1 of corpus niddk`, or `scores`."""
    return label(manifest.asset, manifest.partition)


def label(asset: str, partition: str | None) -> str:
    """Return name of an artefact in messages."""
    return f"{asset} of corpus {partition}" if partition else asset


def encode(manifest: Manifest) -> bytes:
    """Return the bytes of the file: JSON, with a checksum of the rest as `seal`."""
    fields = json.loads(json.dumps(asdict(manifest)))
    fields["seal"] = digest(fields)
    return json.dumps(fields, ensure_ascii=False, indent=1, sort_keys=True).encode("utf-8")


def decode(data: bytes) -> Manifest:
    """Read a manifest from the bytes of a file.

    Raises:
        ValueError: it is not a manifest, or has changed since it was written.
    """
    try:
        fields = json.loads(data)
        seal = fields.pop("seal")
        manifest = Manifest(**fields)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise ValueError("it is not a manifest") from None
    if seal != digest(fields):
        raise ValueError("it has changed since it was written")
    if not _well_formed(manifest):
        raise ValueError("it is not a manifest")
    return manifest


def _well_formed(manifest: Manifest) -> bool:
    texts = (manifest.asset, manifest.version, manifest.recipe, manifest.partition or "")
    tables = (manifest.inputs, manifest.counts, manifest.files, manifest.info, manifest.retired)
    if not (all(isinstance(text, str) for text in texts) and all(isinstance(table, dict) for table in tables)):
        return False
    if not all(isinstance(number, (int, float)) for number in (manifest.seconds, manifest.created)):
        return False
    return all(isinstance(entry, dict) and _is_entry(entry) for _, entry in manifest.entries())


def _is_entry(entry: dict[str, Any]) -> bool:
    file = entry.get("file")
    return (
        isinstance(file, str)
        # In the manifest's folder and nowhere else.
        and Path(file).name == file != ".."
        and "\0" not in file
        and isinstance(entry.get("bytes"), int)
        and isinstance(entry.get("sha256"), str)
    )
