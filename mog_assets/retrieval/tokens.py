"""Term counts: one tokenisation of every document serves the BM25 indexes of all levels.

No token spans two level-1 chunks, because those end at white space or after a sentence (but for a run of characters
without white space that is longer than the finest size, which is cut anywhere); so the counts of a coarser
chunk are sums of the counts of the level-1 chunks it covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mog_assets.corpus.chunks import Layout

# Part of the recipe of everything that is counted.
TOKENIZER = "words of two characters and more, lower case, English stop words, Snowball English stems; bm25s"


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


def tokenise(texts: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """Token ids of each text, and the terms that the ids stand for."""
    import bm25s

    tokens = bm25s.tokenize(
        list(texts), stopwords="en", stemmer=_stemmer(), return_ids=True, show_progress=False, allow_empty=True
    )
    terms = [""] * len(tokens.vocab)
    for term, number in tokens.vocab.items():
        terms[number] = term
    return tokens.ids, terms


def query_terms(questions: Sequence[str]) -> list[list[str]]:
    """Terms of each question, in order, repetitions included."""
    ids, terms = tokenise(questions)
    return [[terms[i] for i in row] for row in ids]


def count_bucket(documents: str, spans: str, out: str) -> int:
    """Count the terms of a bucket: a table of `row`, `term`, `count`.

    Rows 0 … n − 1 are the n level-1 chunks of the bucket, the rows after them the titles of its documents.

    Returns:
        Number of documents tokenised.
    """
    table = pq.read_table(documents, columns=["title", "text"])
    texts, titles = table["text"].to_pylist(), table["title"].to_pylist()
    chunks = pq.read_table(spans)
    columns = (chunks[name].to_numpy() for name in ("document", "start", "end"))
    pieces = [texts[d][s:e] for d, s, e in zip(*columns, strict=True)]
    ids, terms = tokenise([*pieces, *titles])
    rows = np.repeat(np.arange(len(ids), dtype=np.int64), [len(i) for i in ids])
    flat = np.fromiter((i for row in ids for i in row), np.int64, len(rows))
    pairs, counts = np.unique(rows * max(len(terms), 1) + flat, return_counts=True)
    numbers, codes = pairs // max(len(terms), 1), pairs % max(len(terms), 1)
    term = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(terms, pa.string()))
    pq.write_table(
        pa.table({"row": numbers.astype(np.int32), "term": term, "count": counts.astype(np.int32)}),
        Path(out),
        compression="zstd",
    )
    return len(titles)


def assemble(buckets: Sequence[Path], chunks: Sequence[int], documents: Sequence[int]) -> dict[str, Any]:
    """Put the counts of all buckets together.

    Args:
        buckets: Files that `count_bucket` wrote, in order.
        chunks: Number of level-1 chunks of each bucket.
        documents: Number of documents of each bucket.

    Returns:
        `terms`: sorted list; `chunks` and `titles`: int32 CSR matrices of shape (level-1 chunks, terms) and
        (documents, terms).
    """
    tables = [pq.read_table(path) for path in buckets]
    local = [table["term"].combine_chunks() for table in tables]
    terms = sorted({term for column in local for term in column.dictionary.to_pylist()})
    number = {term: i for i, term in enumerate(terms)}
    parts: dict[str, list[Any]] = {"chunks": [], "titles": []}
    for table, column, n, m in zip(tables, local, chunks, documents, strict=True):
        to_global = np.array([number[t] for t in column.dictionary.to_pylist()], np.int32)
        columns = to_global[column.indices.to_numpy()] if len(table) else np.zeros(0, np.int32)
        matrix = sparse.csr_matrix(
            (table["count"].to_numpy(), (table["row"].to_numpy(), columns)), shape=(n + m, len(terms)), dtype=np.int32
        )
        parts["chunks"].append(matrix[:n])
        parts["titles"].append(matrix[n:])
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
