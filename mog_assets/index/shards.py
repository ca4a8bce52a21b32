"""Shards: groups of consecutive buckets of a corpus whose term counts are in memory together.

BM25 counts are built and stored shard by shard: memory is that of a shard, and an edit rewrites one shard. A shard has
a vocabulary of its own, shared by all levels. Terms are weighted by statistics of whole corpora, never by those of a
shard, so scores do not depend on how a corpus is divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open
from safetensors.numpy import save_file
from scipy import sparse

from mog_assets.index.layouts import bucket_layout
from mog_assets.index.term_tables import TermTable, write_table
from mog_assets.index.tokens import assemble, level_counts
from mog_assets.resources.tables import text_array
from mog_assets.text.characters import plain
from mog_assets.text.terms import LETTERS, words_in

# More than the number of any bucket; a power of two.
_BUCKETS = 4096


def shards(chunks: Mapping[str, int], most: int) -> dict[str, list[str]]:
    """Divide the buckets of a corpus into shards.

    Every shard has the same power of two of bucket numbers. So a corpus that grows keeps its shards until one of them
    is too large, and then each is halved.

    Args:
        chunks: Level-1 chunks by name of the bucket (`bucket_0007.parquet`).
        most: Level-1 chunks of a shard, at most; a larger bucket is a shard of its own.

    Returns:
        Names of the buckets in order, by name of the shard (`0000`), in order.
    """
    number = {name: int(name.removeprefix("bucket_").partition(".")[0]) for name in sorted(chunks)}
    width = _BUCKETS
    while width > 1:
        sizes: dict[int, int] = {}
        for name, place in number.items():
            sizes[place // width] = sizes.get(place // width, 0) + chunks[name]
        if max(sizes.values(), default=0) <= most:
            break
        width //= 2
    members: dict[str, list[str]] = {}
    for name, place in number.items():
        members.setdefault(f"{place // width:04d}", []).append(name)
    return members


def write_terms(buckets: Sequence[str], out: str) -> int:
    """Write the vocabulary of a shard: a table of `term`, sorted, and `occurrences` in the text of chunks.

    Args:
        buckets: Files that `count_bucket` wrote.
        out: File to write; see `term_tables`.

    Returns:
        Number of terms.
    """
    totals: dict[str, int] = {}
    for path in buckets:
        table = pq.read_table(path, columns=["chunk", "term", "count"], read_dictionary=["term"])
        column = table["term"].unify_dictionaries().combine_chunks()
        if not len(table):
            continue
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        # Words of titles are terms too, and occur in no text.
        times = np.where(table["chunk"].to_numpy() < 0, 0, table["count"].to_numpy())
        sums = np.bincount(column.indices.to_numpy(), times, len(column.dictionary))
        for term, occurrences in zip(column.dictionary.to_pylist(), sums.tolist(), strict=True):
            totals[term] = totals.get(term, 0) + int(occurrences)
    terms = sorted(totals)
    write_table(terms, {"occurrences": np.array([totals[term] for term in terms], np.int64)}, Path(out))
    return len(terms)


def write_words(documents: Sequence[str], out: str) -> int:
    """Write how often the words of the documents of a shard occur as they are written; see `questions.words_in`.

    Args:
        documents: Parquet files of the documents of each bucket.
        out: File to write; see `term_tables`.

    Returns:
        Number of words.
    """
    written: Counter[str] = Counter()
    for path in documents:
        for column in pq.read_table(path, columns=["title", "text"]).columns:
            for text in column.to_pylist():
                written.update(LETTERS.findall(plain(text)[0]))
    totals: Counter[str] = Counter()
    for word, times in written.items():
        totals.update(dict.fromkeys(words_in(word), times))
    words = sorted(totals)
    write_table(words, {"occurrences": np.array([totals[word] for word in words], np.int64)}, Path(out))
    return len(words)


def write_titles(buckets: Sequence[str], documents: Sequence[int], terms: str, out: str) -> int:
    """Write the counts of the titles of a shard.

    Args:
        buckets: Files that `count_bucket` wrote.
        documents: Documents of each bucket.
        terms: File that `write_terms` wrote for the shard.
        out: `.safetensors` file to write.

    Returns:
        Number of titles.
    """
    number = {term: i for i, term in enumerate(TermTable(Path(terms)))}
    parts = []
    for path, rows in zip(buckets, documents, strict=True):
        table = pq.read_table(path, filters=[("chunk", "<", 0)])
        columns = np.fromiter((number[t] for t in table["term"].to_pylist()), np.int32, len(table))
        entries = (table["count"].to_numpy(), (table["document"].to_numpy(), columns))
        parts.append(sparse.csr_matrix(entries, shape=(rows, len(number)), dtype=np.int32))
    matrix = sparse.vstack(parts, "csr").tocsc()
    matrix.sort_indices()
    save_counts(matrix, Path(out))
    return int(matrix.shape[0])


def count_shard(
    buckets: Sequence[str], documents: Sequence[str], spans: Sequence[str], terms: str, levels: int, out: str
) -> int:
    """Write the counts of "title + text" of every level-1 chunk of a shard.

    Of chunks of coarser levels, which are made of these, what weighs terms is written: in how many each occurs.

    Args:
        buckets: Files that `count_bucket` wrote.
        documents: Parquet files of the documents of each bucket.
        spans: Parquet files of their level-1 spans.
        terms: File that `write_terms` wrote for the shard.
        levels: How many there are.
        out: `.safetensors` file to write.

    Returns:
        Number of level-1 chunks.
    """
    number = {term: i for i, term in enumerate(TermTable(Path(terms)))}
    parts = []
    frequencies = {level: np.zeros(len(number), np.int64) for level in range(2, levels + 1)}
    totals = {level: np.zeros(2, np.int64) for level in frequencies}
    for bucket, texts, cuts in zip(buckets, documents, spans, strict=True):
        layout = bucket_layout(Path(texts), Path(cuts))
        assembled = assemble([Path(bucket)], [layout])
        numbers = np.array([number[term] for term in assembled["terms"]], np.int32)
        for level, times in frequencies.items():
            matrix = level_counts(assembled["chunks"], assembled["titles"], layout, level)
            times[numbers] += np.diff(matrix.indptr)
            totals[level] += matrix.shape[0], matrix.sum(dtype=np.int64)
        counts = level_counts(assembled["chunks"], assembled["titles"], layout, 1).tocsr()
        # Hundreds of millions of them are held until the shard is complete.
        data = counts.data.astype(np.min_scalar_type(int(counts.data.max(initial=0))))
        parts.append(
            sparse.csr_matrix((data, numbers[counts.indices], counts.indptr), shape=(counts.shape[0], len(number)))
        )
    matrix = sparse.vstack(parts, "csr")
    parts.clear()
    matrix = matrix.tocsc()
    matrix.sort_indices()
    further = {f"frequencies_{level}": times for level, times in frequencies.items()}
    further |= {f"totals_{level}": sums for level, sums in totals.items()}
    save_counts(matrix, Path(out), further)
    return int(matrix.shape[0])


def save_counts(matrix: Any, path: Path, further: Mapping[str, np.ndarray] = {}) -> None:  # noqa: B006
    """Write CSC counts in the narrowest types that hold them: most counts and many chunks are small.

    Args:
        matrix: Of shape (texts, terms).
        path: `.safetensors` file to write.
        further: Other arrays of it.
    """
    arrays = {
        "frequencies": np.diff(matrix.indptr),
        "chunks": matrix.indices,
        "counts": matrix.data,
        "lengths": np.asarray(matrix.sum(axis=1, dtype=np.int64)).ravel(),
        **further,
    }
    save_file(
        {name: array.astype(np.min_scalar_type(int(array.max(initial=0)))) for name, array in arrays.items()}, path
    )


def total_of_terms(parts: Sequence[tuple[Sequence[str], np.ndarray]]) -> pa.Table:
    """Add up numbers of terms as a table of `term` and `total`; the greatest come first, equal ones by term."""
    tables = [pa.table({"term": text_array(terms), "total": pa.array(numbers)}) for terms, numbers in parts]
    summed = pa.concat_tables(tables).group_by("term", use_threads=False).aggregate([("total", "sum")])
    return summed.rename_columns(["term", "total"]).sort_by([("total", "descending"), ("term", "ascending")])


def frequencies_and_totals(path: Path, level: int) -> tuple[np.ndarray, int, int]:
    """Read in how many chunks of a level each term is, how many there are, and their tokens, from a file of counts."""
    with safe_open(path, "np") as stored:
        if level > 1:
            chunks, tokens = stored.get_tensor(f"totals_{level}").tolist()
            return stored.get_tensor(f"frequencies_{level}").astype(np.int64), chunks, tokens
        lengths = stored.get_tensor("lengths")
        return stored.get_tensor("frequencies").astype(np.int64), len(lengths), int(lengths.sum(dtype=np.int64))


def largest(table: pa.Table, column: str, rows: int) -> list[dict[str, Any]]:
    """Return the first rows of `total_of_terms`, to be shown."""
    return table.slice(0, rows).rename_columns(["term", column]).to_pylist()
