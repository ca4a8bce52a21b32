"""Fold text for comparison: case, blanks, punctuation and compatibility forms do not count; offsets are kept."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

# Blanks, controls, format characters, punctuation, and symbols such as ` and ´ that serve as quotation marks.
_IGNORED = ("Z", "Cc", "Cf", "P", "Sk")
# The minus sign; what begins a variation or joins graphemes; letters that serve as apostrophes or primes.
_ALSO_IGNORED = {0x2212, 0x034F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x2B9, 0x2BE)}
# Scripts that set no blanks between words; Hangul, because particles are attached to its words.
_UNSPACED = (
    range(0x0E00, 0x0F00),  # Thai, Lao
    range(0x1000, 0x10A0),  # Myanmar
    range(0x1100, 0x1200),  # Hangul Jamo
    range(0x1780, 0x1800),  # Khmer
    range(0x2E80, 0x3200),  # CJK radicals, kana, bopomofo
    range(0x3400, 0xA000),
    range(0xA960, 0xA980),
    range(0xAC00, 0xD800),
    range(0xF900, 0xFB00),
    range(0x20000, 0x40000),
)
_ZERO_WIDTH_SPACE, _FRACTION_SLASH = 0x200B, "\u2044"
# What a text is translated to, beside codes: what parts words, and what does not; where a word begins or ends without
# it; and what stands before each further code of the same character.
_GAP, _CLEAR, _EDGE, _MORE = " ", "\1", "\2", "\3"
SEPARATOR, END = ord("/"), 4
"""Code between two digits that are apart: `1.5` is not `15`; code of NUL, which ends a document."""


@dataclass(frozen=True)
class Folding:
    """The characters that count in a text, folded: m codes.

    Attributes:
        codes: uint32 array of shape (m,): code points after NFKD and case folding, or SEPARATOR.
        origin: int64 array of shape (m,): offset in the text of the character that each comes from, not decreasing.
        starts: bool array of shape (m,): a word starts here. Digits with one `.` or `,` between them are one word.
    """

    codes: np.ndarray
    origin: np.ndarray
    starts: np.ndarray

    @property
    def data(self) -> bytes:
        """The codes as m bytes: ASCII as it is, all other codes share the upper half."""
        mixed = 128 + ((self.codes * np.uint32(0x9E3779B1)) >> np.uint32(25))
        return np.where(self.codes < 128, self.codes, mixed).astype(np.uint8).tobytes()


class _Characters(dict[int, str]):
    """Translate each character, by code point; `str.translate` fills it."""

    def __missing__(self, point: int) -> str:
        character, category = chr(point), unicodedata.category(chr(point))
        text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        letters = [c for c in text if not (ord(c) in _ALSO_IGNORED or unicodedata.category(c).startswith(_IGNORED))]
        codes = [chr(SEPARATOR) if c == _FRACTION_SLASH else str(unicodedata.decimal(c, c)) for c in letters]
        if codes and character != _FRACTION_SLASH:
            free = category.startswith("S") or (category != "Nd" and any(point in script for script in _UNSPACED))
            self[point] = _MORE.join(codes).join([_EDGE] * 2 if free else ["", ""])
        elif category == "Cf" or (category == "Mn" and point in _ALSO_IGNORED):
            self[point] = _GAP if point == _ZERO_WIDTH_SPACE else _CLEAR
        else:
            self[point] = character if character in ".," else _GAP
        return self[point]


_CHARACTERS = _Characters({0: f"{_EDGE}{chr(END)}{_EDGE}"})


def fold(text: str) -> Folding:
    """Fold a text; NUL is kept, so that several texts can be folded at once."""
    marks = np.frombuffer(text.translate(_CHARACTERS).encode("utf-32-le", "surrogatepass"), "<u4")
    gap = (marks == ord(_GAP)) | (marks == ord(".")) | (marks == ord(","))
    edge, more = marks == ord(_EDGE), marks == ord(_MORE)
    further = np.zeros_like(more)
    further[1:] = more[:-1]
    at = np.flatnonzero((marks > ord(_MORE)) & ~gap)
    codes, origin = marks[at], (np.cumsum(~(edge | more | further)) - 1)[at]
    starts = np.diff(np.cumsum(gap | edge)[at], prepend=-1) > 0
    digits, gaps = (codes >= ord("0")) & (codes <= ord("9")), np.cumsum(gap)[at]
    apart = np.flatnonzero(digits[:-1] & digits[1:] & (gaps[:-1] < gaps[1:]))
    words = (origin[apart + 1] - origin[apart] > 2) | (marks[at[apart] + 1] == ord(_GAP))
    starts[apart + 1] = words
    return Folding(
        np.insert(codes, apart + 1, SEPARATOR),
        np.insert(origin, apart + 1, origin[apart] + 1),
        np.insert(starts, apart + 1, words),
    )
