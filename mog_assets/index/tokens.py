"""Term counts: one tokenisation of every document serves the BM25 indexes of all levels.

What the terms of a text are, `mog_assets.text` says. A term belongs to the level-1 chunk that its word starts in, even
if the text is cut inside it. So the counts of a coarser chunk are sums of the counts of
the level-1 chunks it covers, for every chunker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mog_assets.build.reuse import write_rows
from mog_assets.index.layouts import bucket_layout
from mog_assets.text.chunks import Layout
from mog_assets.text.languages import DEFAULT
from mog_assets.text.terms import located


def count_bucket(documents: str, spans: str, out: str, previous: str | None = None) -> int:
    """Count the terms of a bucket: a table of `document` (row of the bucket), `chunk`, `term`, `count`.

    Chunks are level-1 chunks, numbered from 0 in every document; −1 is its title.

    Args:
        documents: Parquet file with columns `title`, `text`, `sha256` and `language`.
        spans: Parquet file of their level-1 spans.
        out: Parquet file to write.
        previous: Output of this function for an earlier state of the bucket.

    Returns:
        Number of documents tokenised: those that are not in `previous`.
    """
    table = pq.read_table(documents, columns=["title", "text", "sha256"])
    layout = bucket_layout(Path(documents), Path(spans))
    cuts = [layout.spans[first:last] for first, last in pairwise(layout.offsets)]
    languages = languages_of(Path(documents))

    def count(positions: list[int]) -> pa.Table:
        number: dict[str, int] = {}
        documents, chunks, codes = ([np.zeros(0, np.int64)] for _ in range(3))
        for code in sorted({languages[position] for position in positions}):
            members = [position for position in positions if languages[position] == code]
            rows = table.select(["title", "text"]).take(members)
            starts, terms, names = located([*rows["title"].to_pylist(), *rows["text"].to_pylist()], code)
            numbers = np.array([number.setdefault(name, len(number)) for name in names], np.int64)
            for at, (places, of_text) in enumerate(zip(starts, terms, strict=True)):
                position = members[at % len(members)]
                # A text is cut into chunks without gaps.
                of_title = at < len(members)
                chunk = 0 if of_title else np.searchsorted(cuts[position][:, 0], places, side="right")
                documents.append(np.full(len(of_text), position))
                chunks.append(np.full(len(of_text), chunk))
                codes.append(numbers[of_text])
        order = sorted(number)
        rank = np.empty(len(order), np.int64)
        rank[[number[term] for term in order]] = np.arange(len(order))
        document, chunk, term = map(np.concatenate, (documents, chunks, codes))
        most = int(chunk.max(initial=0)) + 1
        keys, counts = np.unique((document * most + chunk) * max(len(order), 1) + rank[term], return_counts=True)
        piece, term = np.divmod(keys, max(len(order), 1))
        return pa.table(
            {
                "document": (piece // most).astype(np.int32),
                "chunk": (piece % most - 1).astype(np.int32),
                "term": pa.array(order, pa.string()).take(term),
                "count": counts.astype(np.int32),
            }
        )

    # Counts depend on title and text (the hash of the document), on their language and on where the text is cut.
    keys = [
        hashlib.sha256(f"{sha256}{code}".encode() + cut.tobytes()).hexdigest()
        for sha256, code, cut in zip(table["sha256"].to_pylist(), languages, cuts, strict=True)
    ]
    return write_rows(Path(out), keys, Path(previous) if previous else None, count)


def languages_of(documents: Path) -> list[str]:
    """Return code of the language that each document of a bucket is analysed in."""
    return [code or DEFAULT for code in pq.read_table(documents, columns=["language"])["language"].to_pylist()]


def assemble(buckets: Sequence[Path], layouts: Sequence[Layout]) -> dict[str, Any]:
    """Combine the counts of all buckets.

    Args:
        buckets: Files that `count_bucket` wrote, in order.
        layouts: Layouts of the buckets.

    Returns:
        `terms`: sorted list; `chunks` and `titles`: int32 CSR matrices of shape (level-1 chunks, terms) and
        (documents, terms).
    """
    tables = [pq.read_table(path, read_dictionary=["term"]).unify_dictionaries().combine_chunks() for path in buckets]
    local = [table["term"].combine_chunks() for table in tables]
    terms = sorted({term for column in local for term in column.dictionary.to_pylist()})
    number = {term: i for i, term in enumerate(terms)}
    parts: dict[str, list[Any]] = {"chunks": [], "titles": []}
    for table, column, layout in zip(tables, local, layouts, strict=True):
        to_global = np.array([number[t] for t in column.dictionary.to_pylist()], np.int32)
        term = to_global[column.indices.to_numpy()] if len(table) else np.zeros(0, np.int32)
        document, chunk, count = (table[name].to_numpy() for name in ("document", "chunk", "count"))
        title = chunk < 0
        for name, here, row, rows in (
            ("chunks", ~title, layout.offsets[document] + chunk, layout.count(1)),
            ("titles", title, document, len(layout.documents)),
        ):
            entries = (count[here], (row[here], term[here]))
            parts[name].append(sparse.csr_matrix(entries, shape=(rows, len(terms)), dtype=np.int32))
    return {"terms": terms, **{name: sparse.vstack(part, "csr") for name, part in parts.items()}}


def level_counts(chunks: Any, titles: Any, layout: Layout, level: int) -> Any:
    """Return counts of "title + text" of every chunk of a level: int32 CSC matrix of shape (chunks, terms)."""
    document = np.repeat(np.arange(len(layout.documents)), np.diff(layout.level_offsets(level)))
    finest = np.arange(layout.count(1))
    one = np.ones(len(finest), np.int32)
    grouped = sparse.csr_matrix((one, (layout.containing(finest, level), finest)), dtype=np.int32)
    counts = (grouped @ chunks + titles[document]).tocsc()
    counts.sort_indices()
    return counts
