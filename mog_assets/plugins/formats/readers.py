"""Readers with models: `ocr` for scanned pages, `docling` for complex layouts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from mog_assets.documents.formats.kinds import READERS, FileReader
from mog_assets.documents.formats.marks import Parsed


def _recognised(page: Any) -> Any:
    from mog_assets.plugins.formats.ocr import recognised

    return recognised(page)


def _with_layout(name: str, content: bytes, limits: Mapping[str, Any]) -> Parsed:
    from mog_assets.plugins.formats.layout import read_docling

    file = PurePosixPath(name)
    return read_docling(content, file.name, file.stem, limits["text_bytes"])


READERS.register(
    "ocr",
    FileReader(
        recognise=_recognised,
        limits={"max_seconds": 600, "max_memory_mb": 4096},
        packages=("rapidocr", "onnxruntime"),
    ),
)
READERS.register(
    "docling",
    FileReader(
        read=_with_layout,
        limits={"max_seconds": 600, "max_memory_mb": 16_384},
        packages=("docling",),
        # It may need a token to load its models.
        secrets=True,
    ),
)
