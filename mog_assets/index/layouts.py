"""Open the layout of a corpus from its stored buckets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from mog_assets.resources.store import Artefact
from mog_assets.resources.tables import numbers, read_table
from mog_assets.text.chunks import Layout

# Cache size: the layouts of two million chunks.
_KEPT_BYTES = 64 << 20


class _Opened:
    """Cache of the last opened layouts, at most `_KEPT_BYTES`."""

    def __init__(self) -> None:
        self._layouts: OrderedDict[tuple[object, ...], Layout] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def find(self, key: tuple[object, ...]) -> Layout | None:
        with self._lock:
            if key in self._layouts:
                self._layouts.move_to_end(key)
            return self._layouts.get(key)

    def keep(self, key: tuple[object, ...], layout: Layout) -> None:
        with self._lock:
            if key not in self._layouts:
                self._layouts[key] = layout
                self._bytes += layout.nbytes
            while self._bytes > _KEPT_BYTES:
                _, oldest = self._layouts.popitem(last=False)
                self._bytes -= oldest.nbytes


# All assets of a corpus open the same layout, and some open those of all corpora in turn.
_OPENED = _Opened()


def bucket_layout(documents: Path, spans: Path) -> Layout:
    """Return the layout of one bucket, from the cache if it was opened recently."""
    states = (path.stat() for path in (documents, spans))
    key = (documents, spans, *((s.st_mtime_ns, s.st_size) for s in states))
    layout = _OPENED.find(key)
    if layout is None:
        layout = _read_layout(documents, spans)
        _OPENED.keep(key, layout)
    return layout


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
