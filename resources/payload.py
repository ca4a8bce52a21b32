"""What a payload of a point may hold, whichever engine stores it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

# The embedded engine cannot open a collection again that holds a payload of 127 levels.
_LEVELS = 100
_INTEGERS = range(-(1 << 63), 1 << 64)
# Bytes as JSON of all entries. Every chunk of a document repeats them, and a request to a server may have 32 MB.
_BYTES = 10_000


def storable(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The entries that every engine stores and gives back as they are, and why each of the others is left out.

    Args:
        values: JSON values by key.

    Returns:
        Entries to store, of at most 10,000 bytes as JSON together, the largest left out first; and reasons by key.
    """
    reasons = {key: reason for key, value in values.items() if (reason := _wrong({key: value}))}
    sizes = {key: len(json.dumps({key: value}).encode()) for key, value in values.items() if key not in reasons}
    total = 0
    for key in sorted(sizes, key=lambda key: (sizes[key], key)):
        if total + sizes[key] > _BYTES:
            reasons[key] = f"expected at most {_BYTES:,} bytes of metadata, got {total + sizes[key]:,} with this"
        else:
            total += sizes[key]
    return {key: value for key, value in values.items() if key not in reasons}, reasons


def levels(value: Any) -> Iterator[list[Any]]:
    """The parts of a JSON value, a level of nesting at a time: itself, then what it contains (keys too), and so on."""
    level = [value]
    while level:
        yield level
        level = [part for one in level for part in _parts(one)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _wrong(value: Any) -> str:
    """Why an engine would refuse a value or change it; empty if none would."""
    for depth, level in enumerate(levels(value)):
        if depth > _LEVELS:
            return f"expected at most {_LEVELS} levels of nesting, got more"
        for part in level:
            if type(part) is int and part not in _INTEGERS:
                return "expected integers of 64 bits, got a larger one"
            if isinstance(part, float) and not math.isfinite(part):
                return f"expected finite numbers, got {part}"
            if isinstance(part, str) and not _is_text(part):
                return "expected Unicode text, got a lone surrogate"
            if not isinstance(part, str | int | float | list | dict | None):
                return f"expected JSON values, got {type(part).__name__}"
    return ""


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
