"""Find names in texts, all at a time: by the automaton of Aho and Corasick 1975, as in `ahocorasick_rs`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from ahocorasick_rs import AhoCorasick

from mog_assets.index.mentions.names import folded
from mog_assets.resources.arrays import pairs, ranges

# The key of a file's metadata that has the hashes of the documents it was made of.
_MADE_OF = b"documents"
SCHEMA = pa.schema([("document", pa.int32()), ("start", pa.int32()), ("end", pa.int32()), ("name", pa.uint64())])


class Matcher:
    """Finds names in texts, in a time that hardly grows with their number.

    Args:
        names: Folded, without the spaces around them.
        digests: Of the names, uint64.
        capitals: Which names only count in capitals.
    """

    def __init__(self, names: Iterable[str], digests: np.ndarray, capitals: np.ndarray) -> None:
        # Names are whole words: in a folded text a space stands before and after each.
        self._automaton = AhoCorasick((f" {name} " for name in names), store_patterns=False)
        self._digests, self._capitals = digests, capitals

    def find(self, texts: Iterable[str], documents: Sequence[int]) -> pa.Table:
        """Return all places where the names stand in texts, overlapping ones too; by document, start, end and name.

        Args:
            texts: The texts.
            documents: What each is called in the result.
        """
        parts = [np.zeros((4, 0), np.int64)]
        for text, document in zip(texts, documents, strict=True):
            compared, offsets = folded(text)
            matches = self._automaton.find_matches_as_indexes(compared, overlapping=True)
            number, begin, end = np.array(matches, np.int64).reshape(-1, 3).T
            # The spaces are not part of the name.
            start, end = offsets[begin + 1], offsets[end - 2] + 1
            admissible = ~self._capitals[number]
            for row in np.flatnonzero(~admissible).tolist():
                admissible[row] = text[start[row] : end[row]].isupper()
            parts.append(np.stack([np.full(len(number), document), start, end, number])[:, admissible])
        document_of, start, end, number = np.concatenate(parts, axis=1)
        return _table(document_of, start, end, self._digests[number])


def _table(document: np.ndarray, start: np.ndarray, end: np.ndarray, name: np.ndarray) -> pa.Table:
    order = np.lexsort((name, end, pairs(document, start)))
    columns = [document[order], start[order], end[order]]
    return pa.table([*(pa.array(column.astype(np.int32)) for column in columns), pa.array(name[order])], schema=SCHEMA)


def read_names(path: Path) -> tuple[pa.ChunkedArray, np.ndarray, np.ndarray]:
    """Return names, digests and capitals of a table of names, one row each; see `Matcher`."""
    table = pq.read_table(path, columns=["name", "digest", "capitals"])
    return (
        table["name"],
        table["digest"].to_numpy(),
        np.asarray(table["capitals"].to_numpy(zero_copy_only=False), bool),
    )


def _matcher(path: str) -> Matcher:
    # A file of this path may have held other names in an earlier run of this process.
    return _matcher_of(path, hashlib.blake2b(Path(path).read_bytes()).digest())


@lru_cache(maxsize=2)
def _matcher_of(path: str, content: bytes) -> Matcher:
    names, digests, capitals = read_names(Path(path))
    return Matcher(names.to_pylist(), digests, capitals)


def search_bucket(
    documents: str, names: str, added: str | None, removed: str | None, out: str, previous: str | None = None
) -> dict[str, int]:
    """Find all names in the texts of a bucket; of texts that were searched before, only what is new.

    Args:
        documents: Parquet file with columns `text` and `sha256`.
        names: Table of all names.
        added: Table of the names that `previous` was not searched for; None without `previous`.
        removed: `.npy` file with the digests of names that are gone since, ascending; None without `previous`.
        out: Parquet file to write, see `SCHEMA`: `document` is the row of the bucket. Its bytes depend only on the
            documents and the names.
        previous: Output of this function for an earlier state of the bucket and earlier names.

    Returns:
        `searched`: texts searched for all names.
    """
    table = pq.read_table(documents, columns=["text", "sha256"])
    texts, keys = table["text"], table["sha256"].to_pylist()
    parts, rows_of = [], dict[str, int]()
    if previous is not None and added is not None and removed is not None:
        earlier = pq.read_table(previous, schema=SCHEMA)
        made_of = pq.read_schema(previous).metadata[_MADE_OF].decode().split()
        rows_of = {key: row for row, key in enumerate(made_of)}
        rows = [row for row, key in enumerate(keys) if key in rows_of]
        before = np.array([rows_of[keys[row]] for row in rows], np.int64)
        # Rows are in order of documents, and documents of the same text have the same places.
        first, last = (np.searchsorted(earlier["document"].to_numpy(), before, side) for side in ("left", "right"))
        places, moved = ranges(first, last), np.repeat(np.array(rows, np.int64), last - first)
        start, end, name = (earlier[column].to_numpy()[places] for column in ("start", "end", "name"))
        remaining = ~np.isin(name, np.load(removed))
        parts.append(_table(moved[remaining], start[remaining], end[remaining], name[remaining]))
        if rows and pq.read_metadata(added).num_rows:
            parts.append(_matcher(added).find([texts[row].as_py() for row in rows], rows))
    missing = [row for row, key in enumerate(keys) if key not in rows_of]
    if missing:
        parts.append(_matcher(names).find([texts[row].as_py() for row in missing], missing))
    joined = pa.concat_tables([SCHEMA.empty_table(), *parts])
    document, start, end, name = (joined[column].to_numpy() for column in SCHEMA.names)
    joined = _table(document, start, end, name)
    metadata = {_MADE_OF: " ".join(keys).encode()}
    pq.write_table(joined.replace_schema_metadata(metadata), out, compression="zstd", store_schema=True)
    return {"searched": len(missing)}
