"""Open the layout of a corpus from its stored buckets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mog_assets.resources.lazy import Recent
from mog_assets.resources.store import Artefact
from mog_assets.resources.tables import numbers, read_table
from mog_assets.text.chunks import Layout

# Those of two million chunks. All assets of a corpus open the same layout, and some open those of all corpora in turn.
_OPENED: Recent[Layout] = Recent(64 << 20)


def bucket_layout(documents: Path, spans: Path) -> Layout:
    """Return the layout of one bucket, from the cache if it was opened recently."""
    states = (path.stat() for path in (documents, spans))
    key = (documents, spans, *((s.st_mtime_ns, s.st_size) for s in states))
    return _OPENED.get(key, lambda: _read_layout(documents, spans))


def _read_layout(documents: Path, spans: Path) -> Layout:
    ids = read_table(documents, columns=["id"])["id"].to_pylist()
    table = read_table(spans)
    counts = np.bincount(numbers(table, "document"), minlength=len(ids))
    both = np.stack([numbers(table, "start"), numbers(table, "end")], axis=1).astype(np.int64)
    return Layout("", ids, np.concatenate([[0], np.cumsum(counts)]), both)


def join_layouts(corpus: str, parts: Sequence[Layout]) -> Layout:
    """Join the layouts of the buckets of a corpus, or of several corpora, in order.

    Args:
        corpus: Its name.
        parts: The layouts to join.
    """
    counts = np.concatenate([np.diff(p.offsets) for p in parts]) if parts else np.zeros(0, np.int64)
    return Layout(
        corpus,
        [document for p in parts for document in p.documents],
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([p.spans for p in parts]) if parts else np.zeros((0, 2), np.int64),
    )


def open_layout(corpus: str, documents: Artefact, chunks: Artefact) -> Layout:
    """Return the layout of a corpus; documents are in order of bucket, then of id."""
    names = documents.names("bucket")
    return join_layouts(corpus, [bucket_layout(documents.path(n), chunks.path(n)) for n in names])
