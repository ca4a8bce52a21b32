"""How much documents that were not read yet will take: text and disk."""

from __future__ import annotations

import os
from collections.abc import Collection

from mog_assets.config import Settings
from mog_assets.resources.errors import MogError

# Characters of text in a byte of files that are not nearly all text: about, of manuals and reports.
_SHARES = {".pdf": 0.1, ".docx": 0.2, ".pptx": 0.02, ".xlsx": 0.5, ".html": 0.5, ".htm": 0.5, ".gz": 4.0}
# Bytes of the home folder per character of text at chunks of 500 characters (benchmarks/README.md), and without any.
_BYTES_PER_CHARACTER, _BYTES_OF_A_PROJECT = 10, 20_000_000


def characters(settings: Settings, corpora: Collection[str]) -> int:
    """Return text of these corpora: as counted when they were read, else by the sizes and suffixes of local files."""
    from mog_assets.documents.folders import scan
    from mog_assets.resources.store import Store

    total = 0.0
    for name in corpora:
        if (stored := Store(settings.home).find("documents", name)) is not None:
            total += stored.manifest.counts["characters"]
            continue
        try:
            entries = scan(settings.corpora[name].path, settings.corpora[name].max_document_bytes)
        except MogError:
            continue
        read = [(os.path.splitext(e.name)[1].lower(), e.status.st_size) for e in entries if e.status and not e.refusal]
        total += sum(size * _SHARES.get(suffix, 1.0) for suffix, size in read)
    return int(total)


def disk(text: int) -> int:
    """Return bytes of the home folder for so many characters of text."""
    return text * _BYTES_PER_CHARACTER + _BYTES_OF_A_PROJECT
