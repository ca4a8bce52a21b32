"""Texts and names in the form in which they are compared: lower case, words apart by single spaces."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

import numpy as np

from mog_assets.text.characters import plain

_SPACE = ord(" ")
_WORDS = re.compile("[A-Za-z0-9]+")


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
    points_found, offsets = folded_points(text)
    return points_found.tobytes().decode("utf-32-le", "surrogatepass"), offsets


def folded_points(text: str) -> tuple[np.ndarray, np.ndarray]:
    """`folded` with the text as code points, uint32."""
    seen, origin = plain(text)
    points = np.frombuffer(seen.encode("utf-32-le", "surrogatepass"), "<u4")
    word, lower = _ascii() if text.isascii() else _tables()
    in_word = word[points]
    # The first character after a word stands for all up to the next.
    kept = in_word.copy()
    kept[1:] |= in_word[:-1]
    at = np.flatnonzero(kept)
    folded_text = np.where(in_word[at], lower[points[at]], _SPACE).astype("<u4")
    # A word before another with nothing between them cannot be; the space before the first, and after the last, can.
    tail = [len(points)] if len(points) and in_word[-1] else []
    whole = np.concatenate([[_SPACE], folded_text, [_SPACE] * len(tail)]).astype("<u4")
    at = np.concatenate([[-1], at, tail]).astype(np.int64)
    return whole, at if seen is text else np.where(at < 0, at, np.asarray(origin)[at])


def folded_name(name: str) -> str:
    """A short text as `folded` gives it, without the spaces around it."""
    # Arrays take ten times as long for so few characters.
    if name.isascii():
        return " ".join(_WORDS.findall(name)).lower()
    return folded(name)[0].strip()
