"""How much documents that were not read yet will take: text, time of the encoder, disk."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from mog_assets.config import Settings
from mog_assets.resources.errors import MogError
from mog_assets.resources.progress import duration

# Characters of text in a byte of files that are not nearly all text: about, of manuals and reports.
_SHARES = {".pdf": 0.1, ".docx": 0.2, ".pptx": 0.02, ".xlsx": 0.5, ".html": 0.5, ".htm": 0.5, ".gz": 4.0}
# Bytes of the home folder per character of text at chunks of 500 characters (benchmarks/README.md), and without any.
_BYTES_PER_CHARACTER, _BYTES_OF_A_PROJECT = 10, 20_000_000
# Share of `finest_chars` that a piece has on average, and pieces that are encoded to see how fast that is.
_FILLED, _PIECES = 0.8, 48


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


def encoding(settings: Settings, corpora: Collection[str]) -> str:
    """Return a sentence: how many pieces of corpora that have no vectors are encoded, and how long that takes here."""
    from mog_assets.resources.encoder import Encoder
    from mog_assets.resources.registry import ENCODERS

    options = settings.encoder
    pieces = -(-characters(settings, corpora) // int(settings.finest_chars * _FILLED))
    amount = f"About {pieces:,} pieces of text are encoded for the first time"
    if options.served or not (options.model in ENCODERS or Path(options.model).expanduser().is_dir()):
        return f"{amount}; how fast is not known before."
    text = (files("mog_assets") / "samples" / "garden.jsonl").read_text(encoding="utf-8")
    some = [text[n * settings.finest_chars :][: settings.finest_chars] for n in range(_PIECES)]
    encoder = Encoder(options)
    # The first time, what encodes so many is loaded.
    encoder.encode(some, keep=False)
    started = time.perf_counter()
    encoder.encode(some, keep=False)
    speed = _PIECES / (time.perf_counter() - started)
    return f"{amount}: about {duration(pieces / speed)}, at the {speed:,.0f} a second that this machine encodes now."
