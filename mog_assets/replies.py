"""What parsers of model outputs share: JSON objects are found whatever stands around them, and read strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

# No model is asked for so many characters; longer outputs are not parsed.
MAX_CHARS = 100_000
# Maximum number of `{` at which parsing is tried, from the first.
_TRIES = 64
_DECODER = json.JSONDecoder()


class Unparsable(ValueError):
    """An output without an answer in the requested format."""


def printable(text: str) -> str:
    """Text that can be encoded as UTF-8: lone surrogates and NULs become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def only(text: str, key: str) -> Any:
    """The value of a key that exactly one object has; objects with equal values count as one."""
    found = [o[key] for o in decode(said(text)) if key in o]
    if not found:
        raise Unparsable(f"expected an object with {key}, got {shown(text)}")
    if any(value != found[0] for value in found):
        raise Unparsable(f"expected one {key}, got several: {shown(text)}")
    return found[0]


def decode(text: str) -> Iterator[dict[str, Any]]:
    """Top-level JSON objects of an output, in order."""
    position = tried = 0
    while tried < _TRIES and (position := text.find("{", position)) >= 0:
        tried += 1
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        position = end
        if isinstance(value, dict):
            yield value


def said(text: str) -> str:
    """An output without the reasoning text that some servers put before it."""
    if len(text) > MAX_CHARS:
        raise Unparsable(f"expected at most {MAX_CHARS} characters, got {len(text)}")
    return text.rpartition("</think>")[2]


def shown(text: str) -> str:
    """The beginning of a text for a message, quoted, on one line."""
    text = " ".join(printable(text[:400]).split())
    return repr(text[:120] + "…" if len(text) > 120 else text)
