"""Readers of PDF, Word and PowerPoint files: what `corpora.C.reader` chooses from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mog_assets import registry
from mog_assets.registry import Registry


@dataclass(frozen=True)
class Reader:
    """How PDF, Word and PowerPoint files of a corpus are read.

    Attributes:
        read: Reads them instead of the core, called as that of a `Format`.
        recognise: Gives the texts on a page that is only an image, see `pdf.read_pdf`.
        limits: Its defaults of `max_seconds` and `max_memory_mb`, if they are others.
        packages: Those that it needs.
        secrets: Whether its process gets variables of the environment that may be secrets, such as tokens.
    """

    read: Callable[[str, bytes, Mapping[str, Any]], Any] | None = None
    recognise: Callable[[Any], Any] | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    secrets: bool = False


READERS: Registry[Reader] = registry.READERS
"""Readers by name."""

READERS.register("plain", Reader())


def recogniser() -> str:
    """Return the setting with which images of texts are read; empty if no reader reads them."""
    return next((f"`reader: {name}`" for name, reader in READERS.items() if reader.recognise is not None), "")
