"""What a document is called: its title, and other names that it says it has; and how names and texts are compared.

They are folded: lower case, words apart by single spaces.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mog_assets.text.characters import plain

# Keys of metadata that hold further names.
ALIASES = ("aliases", "alias", "also_known_as", "synonyms")
# Shorter names, and names of more words, are not looked for.
SHORTEST, MOST_WORDS = 3, 12
_LONGEST = 200
_MOST_ALIASES = 100
_BRACKETED = re.compile(r"(?P<name>.*\S)\s*\((?P<inner>[^()]{1,80})\)\s*")
_ABBREVIATION = re.compile(r"(?=.*[A-Z])[A-Z0-9][A-Z0-9-]{1,9}")
_SPACE = ord(" ")
_WORDS = re.compile("[A-Za-z0-9]+")
_HEADING = re.compile(r"\s{0,3}#\s+")


class Name(NamedTuple):
    """A name of a document.

    Attributes:
        folded: As it is compared, without the spaces around it.
        capitals: Whether only texts that write it in capitals mean it: `AIDS` is not what a hearing aid is.
    """

    folded: str
    capitals: bool

    @property
    def digest(self) -> int:
        """A number for the name: uint64; two names share a number with a probability of 2^−64."""
        facts = f"{self.folded}\0{self.capitals}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(facts, digest_size=8).digest(), "little")


def names_of(title: str, text: str, metadata: str) -> list[Name]:
    """Return the names of a document, each once, the title first.

    They are its title, also without an addition in brackets at its end; an abbreviation in these brackets; its first
    Markdown heading; and the `ALIASES` of its metadata.

    Args:
        title: Of the document.
        text: Its text.
        metadata: Its metadata as JSON.
    """
    names: dict[Name, None] = {}
    for name in _names_in(title, text, metadata):
        if len(name) > _LONGEST:
            continue
        compared = folded_name(name)
        if len(compared) < SHORTEST or compared.count(" ") >= MOST_WORDS:
            continue
        if any(character.isalpha() for character in compared):
            capitals = bool(_ABBREVIATION.fullmatch(name.strip()))
            names[Name(compared, capitals)] = None
    return list(names)


def _names_in(title: str, text: str, metadata: str) -> Iterator[str]:
    yield title
    if ")" in title and (match := _BRACKETED.fullmatch(title[:_LONGEST])):
        yield match["name"]
        if _ABBREVIATION.fullmatch(match["inner"].strip()):
            yield match["inner"].strip()
    if match := _HEADING.match(text):
        # The end of the line is taken off by hand: an expression for it takes forever on a line with many spaces.
        line, _, _ = text[match.end() :].partition("\n")
        yield line.rstrip().rstrip("#").rstrip()
    yield from _aliases(metadata)


def _aliases(metadata: str) -> Iterator[str]:
    # Most documents have none, and metadata may be long.
    if not any(f'"{key}"' in metadata for key in ALIASES):
        return
    try:
        fields: Any = json.loads(metadata)
    except RecursionError:
        # Whoever wrote it had more of the stack left.
        return
    for key in ALIASES if isinstance(fields, dict) else ():
        value = fields.get(key)
        values = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
        yield from (name for name in values[:_MOST_ALIASES] if isinstance(name, str))


@cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Return for every code point whether words have it, and what it is compared as: bool and uint32 (0x110000,)."""
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
    """Return a text as it is compared: its words in lower case, each after one space, and one space at the end.

    Words are runs of letters and digits. Any other characters between two words are one space, so that `Crohn’s
    disease` and `crohn's  disease` are the same.

    Returns:
        The folded text, and the offset in `text` of each of its characters, int64 of shape (characters,). A space that
        stands before a word has the offset of the character before it, −1 at the beginning of the text.
    """
    seen, origin = plain(text)
    points = np.frombuffer(seen.encode("utf-32-le", "surrogatepass"), "<u4")
    word, lower = _ascii() if text.isascii() else _tables()
    in_word = word[points]
    # The first character after a word stands for all up to the next.
    compared = in_word.copy()
    compared[1:] |= in_word[:-1]
    at = np.flatnonzero(compared)
    folded_text = np.where(in_word[at], lower[points[at]], _SPACE).astype("<u4")
    # A word before another with nothing between them cannot be; the space before the first, and after the last, can.
    tail = [len(points)] if len(points) and in_word[-1] else []
    spaced = np.concatenate([[_SPACE], folded_text, [_SPACE] * len(tail)]).astype("<u4")
    at = np.concatenate([[-1], at, tail]).astype(np.int64)
    at = at if seen is text else np.where(at < 0, at, np.asarray(origin)[at])
    return spaced.tobytes().decode("utf-32-le"), at


def folded_name(name: str) -> str:
    """Return a short text as `folded` gives it, without the spaces around it."""
    # Arrays take ten times as long for so few characters.
    if name.isascii():
        return " ".join(_WORDS.findall(name)).lower()
    return folded(name)[0].strip()
