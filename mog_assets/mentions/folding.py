"""Texts and names in the form in which they are compared: lower case, words apart by single spaces."""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np

_SPACE = ord(" ")


@cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """For every code point, whether words have it, and what it is compared as: bool and uint32 of shape (0x110000,)."""
    points = np.arange(0x110000, dtype=np.uint32)
    word, folded = np.zeros(len(points), bool), points.copy()
    for point in range(len(points)):
        # Surrogates are no characters.
        if 0xD800 <= point <= 0xDFFF:
            continue
        character = chr(point)
        if not character.isalnum():
            continue
        word[point] = True
        # One character for one, so that offsets stay: what would become several stays as it is.
        forms = (unicodedata.normalize("NFKC", character).lower(), character.lower(), character)
        folded[point] = next(ord(form) for form in forms if len(form) == 1)
    return word, folded


@cache
def _ascii() -> tuple[np.ndarray, np.ndarray]:
    characters = [chr(point) for point in range(128)]
    word = np.array([character.isalnum() for character in characters])
    return word, np.array([ord(character.lower()) for character in characters], np.uint32)


def folded(text: str) -> tuple[str, np.ndarray]:
    """A text as it is compared: its words in lower case, each after one space, and one space at the end.

    Words are runs of letters and digits. Any other characters between two words are one space, so that `Crohn’s
    disease` and `crohn's  disease` are the same.

    Returns:
        The folded text, and the offset in `text` of each of its characters, int64 of shape (characters,). A space that
        stands before a word has the offset of the character before it, −1 at the beginning of the text.
    """
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    word, lower = _ascii() if text.isascii() else _tables()
    in_word = word[points]
    # The first character after a word stands for all up to the next.
    kept = in_word.copy()
    kept[1:] |= in_word[:-1]
    at = np.flatnonzero(kept)
    there = in_word[at]
    found = np.where(there, lower[points[at]], _SPACE).astype("<u4")
    # A word before another with nothing between them cannot be; the space before the first, and after the last, can.
    head, tail = np.array([_SPACE], "<u4"), np.array([_SPACE] if len(points) and in_word[-1] else [], "<u4")
    whole = np.concatenate([head, found, tail]).tobytes().decode("utf-32-le", "surrogatepass")
    return whole, np.concatenate([[-1], at, [len(points)] if len(tail) else []]).astype(np.int64)
