"""Many documents as the items of a source: parts by a hash of their ids, each a `.jsonl` file.

A document that changes changes one part. Reading remembers lines, so that the others of the part are not read again.
"""

from __future__ import annotations

import hashlib

PARTS = 256


def part_of(identity: str) -> int:
    """The part that a document belongs to, 0 … `PARTS` − 1."""
    return hashlib.sha256(identity.encode()).digest()[0] % PARTS


def name_of(part: int) -> str:
    """The name of the item."""
    return f"{part:02x}.jsonl"


def number_of(name: str) -> int:
    """The part of an item's name."""
    return int(name.removesuffix(".jsonl"), 16)
