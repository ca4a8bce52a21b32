"""Find folded text in many documents: an index of the beginnings of words.

A quote and its place in a document begin words at the same characters. So every place is among the words of the
documents that begin with the same 12 folded characters as a word of the quote; the rarest such word is looked up, and
its places are compared with the whole quote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.questions.folding import END, Folded, Folding, code_points

Name = tuple[str, str]
"""A document: corpus and id."""
# Characters of a key, 5 bits each.
KEY = 12
# Words of a quote that are looked up.
_ANCHORS = 64
# Anchors of which the places are compared; more than one, because a document may break a word where the quote does not.
_TRIED = 3
LONG = 20
"""Folded characters from which on a quote may begin or end within a word, and may be found by similarity."""
# Places of a quote that are looked at; folded characters of them, unless they are few places.
MOST = 1_000
_COMPARED, _FEW = 1 << 21, 4
# Characters that are folded at once, and between two points from which a document can be folded on.
_BLOCK, _STRIDE = 1 << 17, 512
_SHIFTS = 5 * np.arange(KEY - 1, -1, -1)


def _five_bits() -> np.ndarray:
    code = np.arange(256) % 31 + 1
    code[ord("a") : ord("z") + 1] = np.arange(1, 27)
    code[ord("0") : ord("9") + 1] = 27 + np.arange(10) % 5
    return code.astype(np.uint64)


_FIVE_BITS = _five_bits()


def as_bytes(codes: np.ndarray) -> np.ndarray:
    """uint8 array: ASCII as it is, 0 only for END; all other codes share the upper half."""
    mixed = (codes * np.uint32(0x9E3779B1)) >> np.uint32(25)
    return np.where(codes < 128, codes, 128 + mixed).astype(np.uint8)


@dataclass(frozen=True)
class Scope:
    """Where a quote may stand: sorted ranges of folded positions, which do not touch; None for everywhere."""

    ranges: np.ndarray | None = None

    def of(self, positions: np.ndarray) -> np.ndarray:
        """The positions that are in the scope."""
        if self.ranges is None:
            return positions
        if not len(self.ranges):
            return positions[:0]
        row = np.searchsorted(self.ranges[:, 0], positions, "right") - 1
        return positions[(row >= 0) & (positions < self.ranges[row, 1])]


class QuoteIndex:
    """Documents, folded and one after the other, each with an END behind it.

    Memory: two bytes for each folded character, twelve (from 4 GB on 16) for each word. Of medquad's 21 MB 57 MB.

    Attributes:
        names: The documents.
        first: Position of the first folded character of each document, and one more after the last.
        folded: All folded characters, as `as_bytes` gives them.
    """

    def __init__(self, documents: Mapping[Name, str], folding: Folding) -> None:
        """Read every document once."""
        self._texts, self._folding = documents, folding
        self.names: list[Name] = []
        parts = [self._block(block) for block in self._blocks()]
        sizes = [len(part[0]) for part in parts]
        total = sum(sizes)
        kind = np.dtype(np.uint32 if total < 1 << 32 else np.int64)
        bases = np.cumsum([0, *sizes])
        self.folded = b"".join(part[0].tobytes() for part in parts) + bytes(KEY)
        words = np.concatenate([(part[1] + base).astype(kind) for part, base in zip(parts, bases, strict=False)])
        self._starts = np.zeros(len(self.folded), bool)
        self._starts[words] = True
        self._points = np.concatenate([part[2] + base for part, base in zip(parts, bases, strict=False)])
        self._origins = np.concatenate([part[3] for part in parts])
        ends = np.concatenate([part[4] + base for part, base in zip(parts, bases, strict=False)])
        self._starts[ends] = True
        self.first = np.concatenate([[0], ends + 1])
        # Until here the words are in the order of the text.
        keys = np.concatenate([part[5] for part in parts])
        del parts
        order = np.argsort(keys, kind="stable")
        self._keys, self._words = keys[order], words[order]
        self._view = np.frombuffer(self.folded, np.uint8)
        self._numbers: dict[tuple[str | None, str | None], list[int]] = {}

    def _blocks(self) -> Iterator[list[str]]:
        block: list[str] = []
        size = 0
        for name, text in self._texts.items():
            self.names.append(name)
            block.append(text.replace("\0", " "))
            size += len(text)
            if size > _BLOCK:
                yield block
                block, size = [], 0
        # Never nothing: arrays of no block cannot be joined.
        yield block

    def _block(self, texts: Sequence[str]) -> tuple[np.ndarray, ...]:
        """Of some texts: folded bytes, words, points to fold on from and their offsets, ends, and keys of the words."""
        folded = self._folding.fold(code_points("".join(f"{text}\0" for text in texts)))
        data, keys = as_bytes(folded.codes), np.zeros(0, np.uint64)
        ends = np.flatnonzero(folded.codes == END)
        words = np.flatnonzero(folded.starts & (folded.codes != END))
        padded = _FIVE_BITS[np.concatenate([data, np.zeros(KEY, np.uint8)])]
        keys = np.zeros(len(words), np.uint64)
        for i in range(KEY):
            keys = (keys << np.uint64(5)) | padded[words + i]
        points = np.flatnonzero(folded.whole & (folded.codes != END))
        owner = np.searchsorted(ends, points)
        here = points // _STRIDE
        chosen = np.ones(len(points), bool)
        chosen[1:] = (here[1:] != here[:-1]) | (owner[1:] != owner[:-1])
        points, owner = points[chosen], owner[chosen]
        begin = np.concatenate([[0], folded.origin[ends] + 1])
        return data, words, points, folded.origin[points] - begin[owner], ends, keys

    def scope(self, corpus: str | None, doc: str | None) -> Scope:
        """The documents with this id, or of this corpus, or both."""
        if corpus is None and doc is None:
            return Scope()
        if not self._numbers:
            for number, (its, identity) in enumerate(self.names):
                for key in ((its, None), (None, identity), (its, identity)):
                    self._numbers.setdefault(key, []).append(number)
        return self.of_documents(self._numbers.get((corpus, doc), []))

    def of_documents(self, numbers: Sequence[int]) -> Scope:
        """Documents by ascending number."""
        rows = np.array(numbers, int)
        return Scope(np.stack([self.first[rows], self.first[rows + 1]], axis=1))

    def document(self, position: int) -> int:
        """Number of the document that a folded position is in."""
        return int(np.searchsorted(self.first, position, "right")) - 1

    def words(self, first: int, last: int) -> list[int]:
        """Folded positions from `first` to `last` at which a word, or the end of a document, is."""
        return (np.flatnonzero(self._starts[first : last + 1]) + first).tolist()

    def text(self, number: int) -> str:
        """Text of a document."""
        return self._texts[self.names[number]]

    def lookup(self, data: np.ndarray, anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each of these words of a folded quote, the words of the documents with the same beginning.

        Args:
            data: The quote's bytes.
            anchors: Positions in it.

        Returns:
            First and last + 1 of them, to be given to `places`.
        """
        lengths = np.minimum(len(data) - anchors, KEY)
        padded = _FIVE_BITS[np.concatenate([data, np.zeros(KEY, np.uint8)])]
        codes = padded[anchors[:, None] + np.arange(KEY)]
        codes[np.arange(KEY) >= lengths[:, None]] = 0
        low = (codes << _SHIFTS.astype(np.uint64)).sum(axis=1, dtype=np.uint64)
        high = low | ((np.uint64(1) << (5 * (KEY - lengths)).astype(np.uint64)) - np.uint64(1))
        return np.searchsorted(self._keys, low, "left"), np.searchsorted(self._keys, high, "right")

    def places(self, first: int, last: int) -> np.ndarray:
        """Folded positions of words that `lookup` found; int64."""
        return self._words[first:last].astype(np.int64)

    def find(self, quote: Folded, scope: Scope, words: bool) -> tuple[list[int], bool]:
        """Folded positions at which a folded quote stands, in order, and whether there may be more.

        At most MOST are given, fewer of a quote of more than 2,000 characters.

        Args:
            quote: What is looked for, of one character or more.
            scope: Where it may stand.
            words: Only where it is whole words.
        """
        data = as_bytes(quote.codes)
        whole, starts, more = data.tobytes(), list[int](), False
        anchors = spread(np.flatnonzero(quote.starts), _ANCHORS)
        if len(anchors) == 1 and not words:
            return self._scanned(whole, scope)
        first, last = self.lookup(data, anchors)
        hits = last - first
        rare = [i for i in np.argsort(hits, kind="stable").tolist() if hits[i] and (i or words)][:_TRIED]
        # The first may be the rest of a word, which other words begin with.
        for i in rare if words else [*rare, 0]:
            candidates = self.places(first[i], last[i]) - anchors[i]
            candidates = candidates[(candidates >= 0) & (candidates + len(data) < len(self._view))]
            if words:
                candidates = candidates[self._starts[candidates] & self._starts[candidates + len(data)]]
            candidates = self._narrowed(scope.of(candidates), data)
            most = min(MOST, max(_FEW, _COMPARED // len(whole)))
            more = len(candidates) > most
            starts = [int(c) for c in candidates[:most] if self.folded.startswith(whole, int(c))]
            if starts or more:
                break
        return starts, more

    def _scanned(self, whole: bytes, scope: Scope) -> tuple[list[int], bool]:
        """What `find` returns, for a part of a word: the folded texts are read from beginning to end."""
        starts, most = list[int](), min(MOST, max(_FEW, _COMPARED // len(whole)))
        for first, last in [(0, len(self.folded))] if scope.ranges is None else scope.ranges.tolist():
            at = self.folded.find(whole, first, last)
            while at >= 0 and len(starts) <= most:
                starts.append(at)
                at = self.folded.find(whole, at + 1, last)
        return starts[:most], len(starts) > most

    def _narrowed(self, candidates: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Sorted candidates that have the quote's characters at some places of it."""
        for at in spread(np.arange(len(data)), 32):
            if len(candidates) <= 1:
                break
            candidates = candidates[self._view[candidates + at] == data[at]]
        return np.sort(candidates)

    def piece(self, start: int, end: int) -> tuple[Folded, int]:
        """Fold the part of a document that has these folded positions in it.

        Returns:
            The folded part, with origins in the document's text; and the place of `start` in it.
        """
        number = self.document(start)
        row = int(np.searchsorted(self._points, start, "right")) - 1
        after = int(np.searchsorted(self._points, end, "left"))
        text = self.text(number)
        begin = int(self._origins[row])
        inside = after < len(self._points) and self._points[after] < self.first[number + 1]
        until = int(self._origins[after]) if inside else len(text)
        folded = self._folding.fold(code_points(text[begin:until].replace("\0", " ")))
        moved = Folded(folded.codes, folded.origin + begin, folded.whole, folded.starts)
        return moved, start - int(self._points[row])


def spread(values: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the values, evenly spread, the first and the last among them."""
    if len(values) <= most:
        return values
    return values[np.linspace(0, len(values) - 1, most).astype(int)]
