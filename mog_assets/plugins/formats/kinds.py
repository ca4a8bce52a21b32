"""The further formats, by suffix."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from mog_assets.documents.formats.kinds import CONTAINERS, FORMATS, Container, Format, format_of
from mog_assets.documents.formats.marks import Parsed
from mog_assets.plugins.formats import code, conversion, mailboxes, parquet, texts


def _converted(name: str, content: bytes, limits: Mapping[str, Any]) -> Parsed:
    suffix = PurePosixPath(name).suffix.lower()
    name = str(PurePosixPath(name).with_suffix(f".{conversion.INTO[suffix]}"))
    return format_of(name).read(name, conversion.converted(content, suffix, limits), limits)


def _code(name: str, content: bytes, limits: Mapping[str, Any]) -> Parsed:
    file = PurePosixPath(name)
    return code.read_code(content, file.name, file.suffix.lower(), limits["encoding"])


def _sheets(name: str, content: bytes, limits: Mapping[str, Any]) -> Parsed:
    from mog_assets.documents.formats.archives import unpack
    from mog_assets.plugins.formats.sheets import read_sheets

    file = PurePosixPath(name)
    parts = unpack(content, file.suffix.lower(), limits["unpacked_bytes"])
    return read_sheets(content, parts, file.stem, limits["text_bytes"])


def _by(module: str, function: str) -> Callable[..., Parsed]:
    """Return what reads with a function of a module beside this one, which is imported with the first file."""

    def read(name: str, content: bytes, limits: Mapping[str, Any]) -> Parsed:
        parse = getattr(importlib.import_module(f"{__package__}.{module}"), function)
        parsed: Parsed = parse(content, PurePosixPath(name).stem, limits["text_bytes"])
        return parsed

    return read


for _suffix in (".xlsx", ".xlsm", ".xltx", ".xltm"):
    FORMATS.register(_suffix, Format(_sheets, version="2"))
FORMATS.register(".rst", Format(texts.read_restructured, text=True))
for _suffix in (".json", ".yaml", ".yml", ".log"):
    FORMATS.register(_suffix, Format(texts.read_data, text=True))
for _suffix in (".srt", ".vtt"):
    FORMATS.register(_suffix, Format(texts.read_subtitles, text=True))
for _suffix in conversion.INTO:
    FORMATS.register(_suffix, Format(_converted, missing=conversion.missing))
FORMATS.register(".ipynb", Format(_by("notebooks", "read_notebook")))
FORMATS.register(".eml", Format(_by("mail", "read_message"), version="3"))
for _suffix in (".mht", ".mhtml"):
    FORMATS.register(_suffix, Format(_by("mail", "read_archive")))
for _suffix in code.suffixes():
    FORMATS.register(_suffix, Format(_code, code=True))
CONTAINERS.register(".parquet", Container(parquet.rows))
CONTAINERS.register(".mbox", Container(lambda stream, limits, limit: mailboxes.messages(stream, limit), ".eml"))
