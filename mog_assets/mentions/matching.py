"""Find names in texts, many at a time (Aho and Corasick 1975)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.mentions.folding import folded

# Characters of the names that are looked for at a time: an automaton takes some 25 bytes for each.
AT_ONCE = 4_000_000
# The key of a file's metadata that has the hashes of the documents it was made of.
_MADE_OF = b"documents"
SCHEMA = pa.schema([("document", pa.int32()), ("start", pa.int32()), ("end", pa.int32()), ("name", pa.uint64())])


class Matcher:
    """Finds names in folded texts.

    Args:
        names: Folded, without the spaces around them.
        digests: Of the names, uint64.
        capitals: Which names only count in capitals.
    """

    def __init__(self, names: Sequence[str], digests: np.ndarray, capitals: np.ndarray) -> None:
        self._names, self._digests, self._capitals = names, digests, capitals
        sizes = np.array([len(name) + 2 for name in names], np.int64)
        part = (np.cumsum(sizes) - 1) // AT_ONCE
        self._bounds = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(names)]

    def parts(self) -> Iterator[tuple[int, Any]]:
        """The automata, one at a time: number of the first name, and the automaton."""
        import ahocorasick_rs

        for first, last in pairwise(self._bounds):
            # Spaces are the ends of words.
            words = [f" {name} " for name in self._names[first:last]]
            if words:
                yield first, ahocorasick_rs.AhoCorasick(words, store_patterns=False)

    def find(self, texts: Sequence[str], documents: Sequence[int]) -> pa.Table:
        """All places where the names stand in texts, overlapping ones too; by document, start, end and name.

        Args:
            texts: The texts.
            documents: What each is called in the result.
        """
        rows: list[np.ndarray] = []
        for first, automaton in self.parts():
            for text, document in zip(texts, documents, strict=True):
                plain, offsets = folded(text)
                found = automaton.find_matches_as_indexes(plain, overlapping=True)
                if not found:
                    continue
                number, begin, end = np.array(found, np.int64).T
                # The spaces are not part of the name.
                begin, end, number = offsets[begin + 1], offsets[end - 2] + 1, number + first
                kept = ~self._capitals[number]
                for row in np.flatnonzero(~kept).tolist():
                    kept[row] = text[begin[row] : end[row]].isupper()
                rows.append(np.stack([np.full(len(begin), document), begin, end, number])[:, kept])
        document, start, end, number = np.concatenate([np.zeros((4, 0), np.int64), *rows], axis=1)
        return _table(document, start, end, self._digests[number])


def _table(document: np.ndarray, start: np.ndarray, end: np.ndarray, name: np.ndarray) -> pa.Table:
    order = np.lexsort((name, end, start, document))
    columns = [document[order], start[order], end[order]]
    return pa.table([*(pa.array(own.astype(np.int32)) for own in columns), pa.array(name[order])], schema=SCHEMA)


def read_names(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, digests and capitals of a table of names, one row each; see `Matcher`."""
    table = pq.read_table(path, columns=["name", "digest", "capitals"])
    return (
        table["name"].to_pylist(),
        table["digest"].to_numpy(),
        np.asarray(table["capitals"].to_numpy(zero_copy_only=False), bool),
    )


@lru_cache(maxsize=2)
def _matcher(path: str) -> Matcher:
    return Matcher(*read_names(Path(path)))


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
    parts, known = [], dict[str, int]()
    if previous is not None and added is not None and removed is not None:
        held = pq.read_table(previous, schema=SCHEMA)
        made_of = pq.read_schema(previous).metadata[_MADE_OF].decode().split()
        known = {key: row for row, key in enumerate(made_of)}
        rows = [(known[key], row) for row, key in enumerate(keys) if key in known]
        now = np.full(len(made_of), -1, np.int64)
        if rows:
            before, after = np.array(rows, np.int64).T
            now[before] = after
        moved = now[held["document"].to_numpy()] if len(held) else np.zeros(0, np.int64)
        name = held["name"].to_numpy()
        kept = (moved >= 0) & ~np.isin(name, np.load(removed))
        start, end = (held[column].to_numpy()[kept] for column in ("start", "end"))
        parts.append(_table(moved[kept], start, end, name[kept]))
        if rows and pq.read_metadata(added).num_rows:
            again = [row for _, row in rows]
            parts.append(_matcher(added).find([texts[row].as_py() for row in again], again))
    missing = [row for row, key in enumerate(keys) if key not in known]
    if missing:
        parts.append(_matcher(names).find([texts[row].as_py() for row in missing], missing))
    whole = pa.concat_tables([SCHEMA.empty_table(), *parts])
    document, start, end, name = (whole[column].to_numpy() for column in SCHEMA.names)
    whole = _table(document, start, end, name)
    metadata = {_MADE_OF: " ".join(keys).encode()}
    pq.write_table(whole.replace_schema_metadata(metadata), out, compression="zstd", store_schema=True)
    return {"searched": len(missing)}
