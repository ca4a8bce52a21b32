"""What a document is called: its title, and other names that it says it has."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mog_assets.index.mentions.folding import folded_name

# Keys of metadata that hold further names.
ALIASES = ("aliases", "alias", "also_known_as", "synonyms")
# Shorter names, and names of more words, are not looked for.
SHORTEST, MOST_WORDS = 3, 12
_LONGEST = 200
_MOST_ALIASES = 100
_BRACKETED = re.compile(r"(?P<name>.*\S)\s*\((?P<inner>[^()]{1,80})\)\s*")
_ABBREVIATION = re.compile(r"(?=.*[A-Z])[A-Z0-9][A-Z0-9-]{1,9}")
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
    """The names of a document, each once, the title first.

    They are its title, also without an addition in brackets at its end; an abbreviation in these brackets; its first
    Markdown heading; and the `ALIASES` of its metadata.

    Args:
        title: Of the document.
        text: Its text.
        metadata: Its metadata as JSON.
    """
    names: dict[Name, None] = {}
    for name in _said(title, text, metadata):
        if len(name) > _LONGEST:
            continue
        plain = folded_name(name)
        if len(plain) < SHORTEST or plain.count(" ") >= MOST_WORDS:
            continue
        if any(character.isalpha() for character in plain):
            capitals = bool(_ABBREVIATION.fullmatch(name.strip()))
            names[Name(plain, capitals)] = None
    return list(names)


def _said(title: str, text: str, metadata: str) -> Iterator[str]:
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
