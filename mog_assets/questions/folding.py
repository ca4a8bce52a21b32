"""Fold text for comparison: case, blanks, punctuation and compatibility forms do not count; offsets are kept."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

# Blanks, controls, format characters, punctuation, and symbols such as ` and ´ that serve as quotation marks.
_IGNORED = ("Z", "Cc", "Cf", "P", "Sk")
# The minus sign; what begins a variation or joins graphemes; letters that serve as apostrophes or primes.
_ALSO_IGNORED = {0x2212, 0x034F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x2B9, 0x2BE)}
_ZERO_WIDTH_SPACE, _FRACTION_SLASH = 0x200B, 0x2044
# Scripts that set no blanks between words; Hangul, because particles are attached to its words.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x11FF),  # Myanmar, Georgian is spaced and in between, Hangul Jamo
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x31FF),  # CJK radicals, kana, bopomofo
    (0x3400, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_SPACED = (0x10A0, 0x10FF)
_GAP, _CLEAR, _SYMBOL, _WORD, _NO_BLANKS = range(5)
SEPARATOR = 32
"""Code between two digits that are apart: `1.5` is not `15`."""
END = 0
"""Code of NUL, which ends a document."""


@dataclass(frozen=True)
class Folded:
    """The characters that count in a text of n characters, folded: m codes.

    Attributes:
        codes: uint32 array of shape (m,): code points after NFKD and case folding, or SEPARATOR.
        origin: int64 array of shape (m,): offset in the text of the character that each comes from, not decreasing.
        whole: bool array of shape (m,): the code begins the folding of a character; False in the rest of it and for
            SEPARATOR.
        starts: bool array of shape (m,): a word starts here. Digits with one `.` or `,` between them are one word.
    """

    codes: np.ndarray
    origin: np.ndarray
    whole: np.ndarray
    starts: np.ndarray


def code_points(text: str) -> np.ndarray:
    """uint32 array of the characters of a text; surrogates stay what they are."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


class Folding:
    """Folds texts; what it has learnt of a character is kept as long as it lives."""

    def __init__(self) -> None:
        size = 0x110000
        self._known = np.zeros(size, bool)
        self._count = np.zeros(size, np.uint8)
        self._where = np.zeros(size, np.uint32)
        self._kind = np.zeros(size, np.uint8)
        self._digit = np.zeros(size, bool)
        self._codes = [SEPARATOR]
        self._pool = np.array(self._codes, np.uint32)

    def _learn(self, points: np.ndarray) -> None:
        for point in np.unique(points).tolist():
            codes = _folded(point)
            self._known[point] = True
            self._count[point] = len(codes)
            self._where[point] = len(self._codes)
            self._kind[point] = _kind(point, codes)
            # A digit that counts is decimal in every form: ² and ½ are too, after NFKD.
            self._digit[point] = bool(codes) and chr(codes[0]).isdecimal()
            self._codes += codes
        self._pool = np.array(self._codes, np.uint32)

    def fold(self, points: np.ndarray) -> Folded:
        """Fold a text that is given as code points; NUL is kept, so that several texts can be folded at once."""
        unknown = points[~self._known[points]]
        if len(unknown):
            self._learn(unknown)
        count, where, kind = self._count[points], self._where[points], self._kind[points]
        counted = np.flatnonzero(count)
        starts = np.zeros(len(points), bool)
        if len(counted):
            before, after = counted[:-1], counted[1:]
            gaps = np.cumsum((kind == _GAP) & (count == 0))
            apart = gaps[after] > gaps[before]
            free = (kind != _WORD)[counted]
            starts[counted[0]] = True
            starts[after] = apart | free[:-1] | free[1:]
            split = np.flatnonzero(apart & self._digit[points[before]] & self._digit[points[after]])
            first, second = before[split], after[split]
            point = (second - first == 2) & np.isin(points[first + 1], (ord("."), ord(",")))
            starts[second] = starts[first + 1] = ~point
            count[first + 1] = 1
            where[first + 1] = 0
        else:
            first = counted
        origin = np.repeat(np.arange(len(points)), count)
        within = np.arange(len(origin)) - np.repeat(np.cumsum(count, dtype=np.int64) - count, count)
        whole = within == 0
        begins = starts[origin] & whole
        separators = np.zeros(len(points), bool)
        separators[first + 1 if len(first) else first] = True
        return Folded(self._pool[where[origin] + within], origin, whole & ~separators[origin], begins)

    def text(self, text: str) -> str:
        """The folded text: equal for texts that differ only in what does not count."""
        codes = self.fold(code_points(text.replace("\0", " "))).codes
        return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def _folded(point: int) -> list[int]:
    if point == END:
        return [END]
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(point)).casefold())
    codes = [ord(c) for c in text if not (ord(c) in _ALSO_IGNORED or unicodedata.category(c).startswith(_IGNORED))]
    if codes == [_FRACTION_SLASH]:
        return []
    return [SEPARATOR if code == _FRACTION_SLASH else code for code in codes]


def _kind(point: int, codes: list[int]) -> int:
    category = unicodedata.category(chr(point))
    if not codes:
        clear = (category == "Cf" and point != _ZERO_WIDTH_SPACE) or (point in _ALSO_IGNORED and category == "Mn")
        return _CLEAR if clear else _GAP
    if point == END:
        return _GAP
    if any(first <= point <= last for first, last in _UNSPACED) and not _SPACED[0] <= point <= _SPACED[1]:
        return _NO_BLANKS
    return _SYMBOL if category.startswith("S") else _WORD
