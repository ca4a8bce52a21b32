"""The formats of the core, registered; the libraries of those that are no text are imported with the first file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from mog_assets.documents.formats import markup
from mog_assets.documents.formats.kinds import FORMATS, READERS, Format
from mog_assets.documents.formats.marks import Parsed

_WORD = (".docx", ".docm", ".dotx", ".dotm")
_SLIDES = (".pptx", ".pptm", ".potx", ".potm", ".ppsx", ".ppsm")


def _pdf(name: str, content: bytes, limits: Mapping[str, Any]) -> Parsed:
    reader = READERS[limits["reader"]]
    if reader.read is not None:
        return reader.read(name, content, limits)
    from mog_assets.documents.formats.pdf import read_pdf

    return read_pdf(content, PurePosixPath(name).stem, limits["text_bytes"], reader.recognise)


def _office(name: str, content: bytes, limits: Mapping[str, Any]) -> Parsed:
    parts = _unpacked(name, content, limits)
    reader = READERS[limits["reader"]]
    if reader.read is not None:
        return reader.read(name, content, limits)
    if PurePosixPath(name.lower()).suffix in _WORD:
        from mog_assets.documents.formats.word import read_docx

        return read_docx(parts, PurePosixPath(name).stem, limits["text_bytes"], limits["unpacked_bytes"])
    from mog_assets.documents.formats.office import read_pptx

    return read_pptx(parts, PurePosixPath(name).stem, limits["text_bytes"])


def _epub(name: str, content: bytes, limits: Mapping[str, Any]) -> Parsed:
    from mog_assets.documents.formats.epub import read_epub

    return read_epub(_unpacked(name, content, limits), PurePosixPath(name).stem, limits["text_bytes"])


def _unpacked(name: str, content: bytes, limits: Mapping[str, Any]) -> dict[str, bytes]:
    from mog_assets.documents.formats.archives import unpack

    return unpack(content, PurePosixPath(name).suffix.lower(), limits["unpacked_bytes"])


for _suffixes, _format in {
    (".txt", ".adoc", ".asciidoc", ".org", ".tex"): Format(markup.read_plain, text=True, version="2"),
    (".md", ".markdown", ".mdx"): Format(markup.read_markdown, text=True, version="2"),
    (".html", ".htm", ".xhtml"): Format(markup.read_page, text=True, version="3"),
    (".pdf",): Format(_pdf, version="3"),
    (*_WORD, *_SLIDES): Format(_office, version="2"),
}.items():
    for _suffix in _suffixes:
        FORMATS.register(_suffix, _format)
FORMATS.register(".epub", Format(_epub, version="3"))
