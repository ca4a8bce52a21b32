"""Open the layout of a corpus from its stored buckets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from mog_assets.chunking.chunks import Layout
from mog_assets.tables import numbers, read_table
from resources.store import Artefact


def bucket_layout(documents: Path, spans: Path) -> Layout:
    """The layout of one bucket; one that was opened a short while ago is not read again."""
    states = (path.stat() for path in (documents, spans))
    return _bucket_layout(documents, spans, *((s.st_mtime_ns, s.st_size) for s in states))


# Every asset of a corpus opens the same layout, and some open those of all corpora one after the other.
@lru_cache(maxsize=4096)
def _bucket_layout(documents: Path, spans: Path, *_: tuple[int, int]) -> Layout:
    ids = read_table(documents, columns=["id"])["id"].to_pylist()
    table = read_table(spans)
    counts = np.bincount(numbers(table, "document"), minlength=len(ids))
    both = np.stack([numbers(table, "start"), numbers(table, "end")], axis=1).astype(np.int64)
    return Layout("", ids, np.concatenate([[0], np.cumsum(counts)]), both)


def join_layouts(corpus: str, parts: Sequence[Layout]) -> Layout:
    """The layout of a corpus from those of its buckets, or of several corpora, in order.

    Args:
        corpus: Its name.
        parts: What it is made of.
    """
    counts = np.concatenate([np.diff(p.offsets) for p in parts]) if parts else np.zeros(0, np.int64)
    return Layout(
        corpus,
        [document for p in parts for document in p.documents],
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([p.spans for p in parts]) if parts else np.zeros((0, 2), np.int64),
    )


def open_layout(corpus: str, documents: Artefact, chunks: Artefact) -> Layout:
    """The layout of a corpus; documents are in order of bucket, then of id."""
    names = documents.names("bucket")
    return join_layouts(corpus, [bucket_layout(documents.path(n), chunks.path(n)) for n in names])
