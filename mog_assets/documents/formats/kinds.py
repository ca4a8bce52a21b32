"""Formats of files that are one document each: what reads a file, by its suffix; readers of PDF and office files.

Text is read in this process. Everything else is parsed in a process of its own, within limits (`worker`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from mog_assets import registry
from mog_assets.documents.formats.marks import Parsed
from mog_assets.registry import Registry
from mog_assets.resources import extras


@dataclass(frozen=True)
class FileReader:
    """Reading of PDF, Word and PowerPoint files of a corpus.

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


READERS: Registry[FileReader] = registry.READERS
"""Readers by name."""

READERS.register("plain", FileReader())


def check_reader(reader: str) -> str:
    """Return what is missing for a reader; empty if nothing is."""
    absent = [package for package in READERS[reader].packages if find_spec(package) is None]
    return f"reader: {reader} needs the package {absent[0]}: {extras.command(absent[0])}" if absent else ""


GZIP = ".gz"


@dataclass(frozen=True)
class Format:
    """A reader of files with a suffix.

    Attributes:
        read: Of text: called with the name of the file and the text. Else with the name, the bytes and the limits: the
            fields of `worker.Limits`, and `text_bytes`, the most bytes of text. Raises ValueError with the reason where
            the file cannot be used.
        text: Whether it is text, in any encoding, and with the further suffix `.gz` packed.
        code: Whether it is source code: an address that ends with the suffix is a program, which writes pages.
        missing: Given a suffix, why such files cannot be read on this machine; empty if they can.
        version: Raised when it reads a file otherwise.
    """

    read: Callable[..., Parsed]
    text: bool = False
    code: bool = False
    missing: Callable[[str], str] = lambda suffix: ""
    version: str = "1"


@dataclass(frozen=True)
class Container:
    """Files of many documents, each of which is read as a file of its own, or as a record.

    Attributes:
        split: Given an open file, the `worker.Limits` and the most bytes of a document, yields of each its number (from
            1), its name (empty if it has none), its bytes (none if there are more) and their number. Raises ValueError
            with the reason where the file cannot be used.
        suffix: Of the format of each; empty if each is a JSON object, as lines of a `.jsonl` file are.
    """

    split: Callable[[BinaryIO, Any, int], Iterator[tuple[int, str, bytes, int]]]
    suffix: str = ""


BARE = {*("readme", "changelog", "changes", "history", "news", "install", "contributing", "authors", "faq", "howto")}
BARE |= {*("license", "copying", "notice", "todo")}
"""Files of text that have no suffix, in lower case."""


def suffixes() -> list[str]:
    """Return those of all formats: text, packed text, the others."""
    texts = [suffix for suffix, form in FORMATS.items() if form.text]
    return [*texts, *(suffix + GZIP for suffix in texts), *(suffix for suffix in FORMATS if suffix not in texts)]


def versions() -> list[str]:
    """Return what reading depends on: every format with its version, whichever package registered it first."""
    return sorted(f"{suffix} {form.version}" for suffix, form in FORMATS.items())


def format_of(name: str) -> Format:
    """Return the format of a file; without a suffix it is plain text."""
    return FORMATS.get(PurePosixPath(name.lower().removesuffix(GZIP)).suffix) or FORMATS[".txt"]


FORMATS: Registry[Format] = registry.FORMATS
"""All formats by suffix, in lower case."""
CONTAINERS: Registry[Container] = registry.CONTAINERS
"""Formats of many documents by suffix, in lower case."""
