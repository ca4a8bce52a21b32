"""Term counts: one tokenisation of every document serves the BM25 indexes of all levels.

A word belongs to the level-1 chunk that it starts in, even if the text is cut inside it. So the counts of a coarser
chunk are sums of the counts of the level-1 chunks it covers, for every chunker.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mog_assets.chunking.chunks import Layout
from mog_assets.chunking.layouts import bucket_layout
from mog_assets.chunking.reuse import write_rows

# Part of the fingerprint of all term counts.
TOKENIZER = (
    "words of two characters and more, counted where they start, lower case, no final sigma, English stop words, "
    "Snowball English stems; bm25s"
)
_REST_OF_WORD = re.compile(r"(?<=\w)\w+")


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


def stem(word: str) -> str:
    """The stem of a word in lower case, as in term counts."""
    found: str = _stemmer().stemWord(word.replace("ς", "σ"))
    return found


def tokenise(texts: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """Token ids of each text, and the terms that the ids stand for."""
    import bm25s

    # Which small sigma a capital one becomes depends on the text after the word.
    lower = [text.lower().replace("ς", "σ") for text in texts]
    tokens = bm25s.tokenize(
        lower, lower=False, stopwords="en", stemmer=_stemmer(), return_ids=True, show_progress=False, allow_empty=True
    )
    terms = [""] * len(tokens.vocab)
    for term, number in tokens.vocab.items():
        terms[number] = term
    return tokens.ids, terms


def query_terms(questions: Sequence[str]) -> list[list[str]]:
    """Terms of each question, in order, repetitions included."""
    ids, terms = tokenise(questions)
    return [[terms[i] for i in row] for row in ids]


def whole_words(text: str, spans: np.ndarray) -> list[str]:
    """The texts of spans, each with exactly the words that start in it, complete.

    Args:
        text: The text.
        spans: Int array of shape (n, 2): start and end offsets.
    """

    def moved(offset: int) -> int:
        rest = _REST_OF_WORD.match(text, offset)
        return rest.end() if rest else offset

    return [text[moved(start) : moved(end)] for start, end in spans.tolist()]


def count_bucket(documents: str, spans: str, out: str, previous: str | None = None) -> int:
    """Count the terms of a bucket: a table of `document` (row of the bucket), `chunk`, `term`, `count`.

    Chunks are level-1 chunks, numbered from 0 in every document; −1 is its title.

    Args:
        documents: Parquet file with columns `title`, `text` and `sha256`.
        spans: Parquet file of their level-1 spans.
        out: Parquet file to write.
        previous: Output of this function for an earlier state of the bucket.

    Returns:
        Number of documents tokenised: those that are not in `previous`.
    """
    table = pq.read_table(documents, columns=["title", "text", "sha256"])
    layout = bucket_layout(Path(documents), Path(spans))
    cuts = [layout.spans[first:last] for first, last in pairwise(layout.offsets)]

    def count(positions: list[int]) -> pa.Table:
        pieces = []
        for position in positions:
            text = table["text"][position].as_py()
            pieces += [table["title"][position].as_py(), *whole_words(text, cuts[position])]
        ids, terms = tokenise(pieces)
        order = sorted(range(len(terms)), key=terms.__getitem__)
        rank = np.empty(len(terms), np.int64)
        rank[order] = np.arange(len(terms))
        flat = rank[np.fromiter((i for row in ids for i in row), np.int64)]
        rows = np.repeat(np.arange(len(ids)), [len(i) for i in ids])
        pairs, counts = np.unique(rows * max(len(terms), 1) + flat, return_counts=True)
        piece, code = pairs // max(len(terms), 1), pairs % max(len(terms), 1)
        sizes = [1 + len(cuts[position]) for position in positions]
        document = np.repeat(np.asarray(positions, np.int32), sizes)
        chunk = np.concatenate([np.arange(-1, size - 1, dtype=np.int32) for size in sizes])
        return pa.table(
            {
                "document": document[piece],
                "chunk": chunk[piece],
                "term": pa.array([terms[i] for i in order], pa.string()).take(code),
                "count": counts.astype(np.int32),
            }
        )

    # Counts depend on title and text (the hash of the document) and on where the text is cut.
    keys = [
        hashlib.sha256(sha256.encode() + cut.tobytes()).hexdigest()
        for sha256, cut in zip(table["sha256"].to_pylist(), cuts, strict=True)
    ]
    return write_rows(Path(out), keys, Path(previous) if previous else None, count)


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
    """Counts of "title + text" of every chunk of a level: int32 CSC matrix of shape (chunks of the level, terms)."""
    document = np.repeat(np.arange(len(layout.documents)), np.diff(layout.level_offsets(level)))
    finest = np.arange(layout.count(1))
    one = np.ones(len(finest), np.int32)
    grouped = sparse.csr_matrix((one, (layout.containing(finest, level), finest)), dtype=np.int32)
    counts = (grouped @ chunks + titles[document]).tocsc()
    counts.sort_indices()
    return counts
