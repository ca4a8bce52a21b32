"""Points of the vector store: their ids and payloads."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from mog_assets.documents.formats.marks import Mark, headings_at, page_at
from mog_assets.index.vectors import NAMESPACE
from mog_assets.resources.payload import storable
from mog_assets.text.chunks import Layout


class OfDocument(NamedTuple):
    """What the points of a document tell of it.

    Attributes:
        payload: `path` and `modified` of its file and its `metadata`, where there are any.
        marks: Where its pages and headings begin.
        left_out: Metadata that a point cannot hold: the reason by key.
    """

    payload: dict[str, Any]
    marks: tuple[Mark, ...]
    left_out: dict[str, str]


def read_payloads(bucket: Path) -> list[OfDocument]:
    """What points tell of the documents of a bucket, in order."""
    table = pq.read_table(bucket, columns=["metadata", "marks"])
    documents = []
    for metadata, marks in zip(table["metadata"].to_pylist(), table["marks"].to_pylist(), strict=True):
        fields = json.loads(metadata)
        notes = fields.pop("mog", {})
        file_facts = {name: notes[name] for name in ("path", "modified") if name in notes}
        kept, left_out = storable(fields)
        payload = {**file_facts, **({"metadata": kept} if kept else {})}
        documents.append(OfDocument(payload, tuple(Mark(**mark) for mark in marks), left_out))
    return documents


def payloads(corpus: str, layout: Layout, level: int, documents: Sequence[OfDocument]) -> list[dict[str, Any]]:
    """The payload of every point of a level: its place, and what is known of its document.

    Args:
        corpus: Name of the corpus.
        layout: Its layout.
        level: The level.
        documents: Of every document, see `read_payloads`.

    Returns:
        `corpus`, `document`, `level`, `start`, `end`; where there are any, `page` (or slide) and `headings` there,
        `path` and `modified` of the file, and the document's `metadata`.
    """
    points_of = []
    rows = zip(*(column.tolist() for column in layout.chunk_spans(np.arange(layout.count(level)), level)), strict=True)
    for document, start, end in rows:
        of_document, marks, _ = documents[document]
        place = {"corpus": corpus, "document": layout.documents[document], "level": level, "start": start, "end": end}
        page, headings = page_at(marks, start), headings_at(marks, start)
        points_of.append(
            {
                **place,
                **({} if page is None else {"page": page}),
                **({"headings": list(headings)} if headings else {}),
                **of_document,
            }
        )
    return points_of


def point_ids(payloads: Sequence[dict[str, Any]], vectors: Iterable[np.ndarray]) -> list[str]:
    """Ids of the points of a level: hashes of payload and vector, so a point is never stale.

    Settings are not part of the id: after a setting is changed and changed back, the ids are those of a rebuilt
        project.

    Args:
        payloads: Of each chunk, in order.
        vectors: Of each chunk, in order.

    Returns:
        uuid5 of payload and vector.
    """
    ids = []
    for payload, vector in zip(payloads, vectors, strict=True):
        facts = json.dumps(payload, sort_keys=True, ensure_ascii=False)
        ids.append(str(uuid.uuid5(NAMESPACE, f"{facts}\0{hashlib.sha256(vector.tobytes()).hexdigest()}")))
    return ids
