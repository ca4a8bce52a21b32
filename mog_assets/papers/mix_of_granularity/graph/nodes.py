"""Nodes of the sentence graph: one or two sentences each, which tile their document.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.3: documents are split into pieces of one or two
sentences.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.build.reuse import write_rows
from mog_assets.text.cuts import Spans, spans_to, units


def node_spans(text: str, sentences: int, longest: int) -> Spans:
    """Return spans of the nodes of a text: `sentences` sentences each, the last one may have fewer.

    A sentence of more than `longest` characters counts as several (`units`).

    Args:
        text: Any text.
        sentences: Sentences of a node, ≥ 1.
        longest: Characters of a sentence, ≥ 1. No span is longer than `sentences` times this.

    Returns:
        int64 array of shape (n, 2); the spans tile the text: they start at 0, are adjacent, and end at len(text).
    """
    ends = units(text, longest).tolist()
    return spans_to([*ends[sentences - 1 :: sentences], *(ends[-1:] if len(ends) % sentences else [])])


def split_nodes(documents: str, out: str, sentences: int, longest: int, previous: str | None = None) -> int:
    """Split the documents of a bucket into nodes; writes a table of `document` (row of the bucket), `start`, `end`.

    The table has the format of level-1 spans, so that a `Layout` of it has nodes as level-1 chunks.

    Args:
        documents: Parquet file with columns `text` and `sha256`.
        out: Parquet file to write.
        sentences: See `node_spans`.
        longest: See `node_spans`.
        previous: Output of this function, with the same options, for an earlier state of the bucket.

    Returns:
        Number of documents split: those that are not in `previous`.
    """
    table = pq.read_table(documents, columns=["text", "sha256"])

    def split(positions: list[int]) -> pa.Table:
        spans = [node_spans(table["text"][position].as_py(), sentences, longest) for position in positions]
        both = np.concatenate(spans).astype(np.int32)
        rows = np.repeat(np.asarray(positions, np.int32), [len(s) for s in spans])
        return pa.table({"document": rows, "start": both[:, 0], "end": both[:, 1]})

    return write_rows(Path(out), table["sha256"].to_pylist(), Path(previous) if previous else None, split)
