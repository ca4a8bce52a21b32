"""Find names in texts, all at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.index.mentions.names import folded_points
from mog_assets.resources.arrays import pairs, ranges

# What is in memory at a time: names while they are read, folded characters of texts, words that are followed.
NAMES_AT_ONCE, CHARACTERS_AT_ONCE, WORDS_AT_ONCE = 50_000, 500_000, 100_000
# The key of a file's metadata that has the hashes of the documents it was made of.
_MADE_OF = b"documents"
SCHEMA = pa.schema([("document", pa.int32()), ("start", pa.int32()), ("end", pa.int32()), ("name", pa.uint64())])


class Matcher:
    """Finds names in folded texts, in a time that does not grow with their number.

    A name is found by a hash of its words: every place of a text is followed word by word while names begin so. What
    has the hash of a name is compared with it.

    Args:
        names: Folded, without the spaces around them.
        digests: Of the names, uint64.
        capitals: Which names only count in capitals.
    """

    def __init__(self, names: Sequence[str] | pa.ChunkedArray, digests: np.ndarray, capitals: np.ndarray) -> None:
        hashes, starts, parts = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)], [np.zeros(0, np.uint8)]
        sizes, longest = [np.zeros(0, np.int64)], 0
        for first in range(0, len(names), NAMES_AT_ONCE):
            some = names[first : first + NAMES_AT_ONCE]
            plain = some.to_pylist() if isinstance(some, pa.ChunkedArray) else list(some)
            points = np.frombuffer(f" {' '.join(plain)} ".encode("utf-32-le", "surrogatepass"), "<u4")
            sizes.append(np.array([len(name) for name in plain], np.int64))
            words = np.array([name.count(" ") + 1 for name in plain], np.int64)
            longest = max(longest, int(words.max(initial=0)))
            hashes_of_names, before = _of_names(_words(points)[0], words)
            hashes.append(hashes_of_names)
            starts.append(before)
            narrow = points[1:].astype(np.min_scalar_type(int(points.max(initial=0))))
            parts.append(narrow)
        hashes_of_names = np.concatenate(hashes)
        # Of two equal names one counts in capitals only: a hash may be of several.
        self._order, self._most = np.argsort(hashes_of_names, kind="stable").astype(np.int32), longest
        self._hashes, counts = np.unique(hashes_of_names, return_counts=True)
        self._first = np.concatenate([[0], np.cumsum(counts)])
        self._complete, self._begun = Filter.of(hashes_of_names), Filter.of(np.concatenate(starts))
        self._points, self._sizes = np.concatenate(parts), np.concatenate(sizes)
        self._at = np.cumsum(self._sizes + 1) - self._sizes - 1
        self._digests, self._capitals = digests, capitals

    def find(self, texts: Iterable[str], documents: Sequence[int]) -> pa.Table:
        """Return all places where the names stand in texts, overlapping ones too; by document, start, end and name.

        Args:
            texts: The texts.
            documents: What each is called in the result.
        """
        parts, waiting, size = [_NONE], list[_Text](), 0
        for text, name in zip(texts, documents, strict=True):
            waiting.append(_Text(text, name, *folded_points(text)))
            size += len(waiting[-1].points)
            # Texts are short, and arrays slow for short ones: many are searched together.
            if size >= CHARACTERS_AT_ONCE:
                parts.append(self._search(waiting))
                waiting, size = [], 0
        if waiting:
            parts.append(self._search(waiting))
        document, start, end, number = (np.concatenate(column) for column in zip(*parts, strict=True))
        return _table(document, start, end, self._digests[number])

    def _search(self, texts: Sequence[_Text]) -> _Places:
        """Return document, start, end and number of the name, of all places in some texts."""
        points = np.concatenate([one.points for one in texts])
        # Two spaces stand between texts, and an empty word between them: no name has one.
        words, spaces = _words(points)
        places = [_NONE[1:]]
        for first in range(0, len(words), WORDS_AT_ONCE):
            here = np.arange(first, min(first + WORDS_AT_ONCE, len(words)))
            places += self._beginning(words, here, points, spaces)
        begin, end, number = (np.concatenate(parts) for parts in zip(*places, strict=True))
        ends = np.cumsum([len(one.points) for one in texts])
        at = np.searchsorted(ends, begin, side="right")
        offsets = np.concatenate([one.offsets for one in texts])
        # The spaces are not part of the name.
        begin, end = offsets[begin], offsets[end - 1] + 1
        admissible = ~self._capitals[number]
        for row in np.flatnonzero(~admissible).tolist():
            admissible[row] = texts[at[row]].text[begin[row] : end[row]].isupper()
        document = np.array([one.document for one in texts], np.int32)[at]
        return (
            document[admissible],
            begin[admissible].astype(np.int32),
            end[admissible].astype(np.int32),
            number[admissible],
        )

    def _beginning(
        self, words: np.ndarray, here: np.ndarray, points: np.ndarray, spaces: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield names that begin at some words: start and end in `points`, and the number of the name."""
        names = _first(words[here])
        for count in range(1, self._most + 1):
            row = np.flatnonzero(self._complete.may_have(names))
            at = np.searchsorted(self._hashes[:-1], names[row])
            there = self._hashes[at] == names[row]
            row, first, last = row[there], self._first[at[there]], self._first[at[there] + 1]
            number = self._order[ranges(first, last)]
            row = np.repeat(row, last - first)
            begin, end = (at.astype(np.int32) for at in (spaces[here[row]] + 1, spaces[here[row] + count]))
            equal = self._are(points, begin, end, number)
            yield begin[equal], end[equal], number[equal]
            on = self._begun.may_have(names) & (here + count < len(words))
            here, names = here[on], names[on]
            if not len(here):
                return
            names = _followed(names, words[here + count])

    def _are(self, points: np.ndarray, begin: np.ndarray, end: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Return whether the names stand at some places: equal hashes may be of different texts."""
        equal = end - begin == self._sizes[number]
        rows = np.flatnonzero(equal)
        at, sizes = self._at[number[rows]], self._sizes[number[rows]]
        differ = points[ranges(begin[rows], end[rows])] != self._points[ranges(at, at + sizes)]
        wrong = np.repeat(rows, sizes)[differ]
        equal[wrong] = False
        return equal


class _Text(NamedTuple):
    """A text to be searched, and its folded form."""

    text: str
    document: int
    points: np.ndarray
    offsets: np.ndarray


_Places = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_NONE: _Places = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32))


class Filter:
    """A set of hashes that may be said to have others, too: 16 bits for each."""

    def __init__(self, bits: np.ndarray) -> None:
        self._bits, self._mask = bits, np.uint64(8 * len(bits) - 1)

    @classmethod
    def of(cls, hashes: np.ndarray) -> Filter:
        """Return the set of some hashes."""
        built = cls(np.zeros(1 << max(2 * len(hashes) - 1, 1).bit_length(), np.uint8))
        slots = hashes & built._mask
        np.bitwise_or.at(built._bits, slots >> np.uint64(3), np.uint8(1) << (slots & np.uint64(7)).astype(np.uint8))
        return built

    def may_have(self, hashes: np.ndarray) -> np.ndarray:
        """Return whether each may be in the set."""
        slots = hashes & self._mask
        return (self._bits[slots >> np.uint64(3)] >> (slots & np.uint64(7)).astype(np.uint8)) & np.uint8(1) != 0


def _words(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hashes of the words of a folded text, uint64, and where spaces are: before each word, and at the end."""
    spaces, hashes = np.flatnonzero(points == ord(" ")), [np.zeros(0, np.uint64)]
    for first in range(0, len(spaces) - 1, WORDS_AT_ONCE):
        own = spaces[first : first + WORDS_AT_ONCE + 1]
        here, own = points[own[0] : own[-1] + 1], own - own[0]
        place = np.arange(len(here)) - np.repeat(own, np.diff(np.append(own, len(here))))
        # Of a word longer than the table, places share numbers: what has its hash is compared.
        worth = here * _NUMBERS[place % len(_NUMBERS)]
        total = np.cumsum(worth)[own]
        # Up to the space after a word, without that, and from the space before it.
        hashes.append(total[1:] - worth[own[1:]] - total[:-1])
    return np.concatenate(hashes), spaces


def _first(words: np.ndarray) -> np.ndarray:
    return _mixed(words)


def _followed(names: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return the hash of words with a further one after them."""
    return _mixed(names * np.uint64(3) + words)


def _of_names(words: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hashes of names, given the hashes of their words and how many each has; and those of their parts.

    Returns:
        The hash of every name, and the distinct hashes of what names begin with, without their last words.
    """
    first = np.cumsum(counts) - counts
    names, parts = _first(words[first]), [np.zeros(0, np.uint64)]
    for count in range(1, int(counts.max(initial=0))):
        more = np.flatnonzero(counts > count)
        parts.append(np.unique(names[more]))
        names[more] = _followed(names[more], words[first[more] + count])
    return names, np.concatenate(parts)


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return a bijection of uint64 numbers that spreads every bit (splitmix64, Steele et al. 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


# Odd numbers, one for each place of a word.
_NUMBERS = _mixed(np.arange(256, dtype=np.uint64)) | np.uint64(1)


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
