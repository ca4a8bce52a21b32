"""Parse model outputs: tolerant of text around an answer, strict about verdicts and marks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from mog_assets.answering.roles import NOTHING, Judgement

V = TypeVar("V", bound=str)

# No reader is asked for so many characters; longer outputs are not parsed.
MAX_CHARS = 100_000
MAX_QUERY_CHARS = 1_000
# Maximum number of `{` at which parsing is tried, from the first.
_TRIES = 64
_DECODER = json.JSONDecoder()


class Unparsable(ValueError):
    """An output without an answer in the requested format."""


def printable(text: str) -> str:
    """Text that can be encoded as UTF-8: lone surrogates and NULs become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def choice(text: str, options: Mapping[str, str]) -> str:
    """The letter of an option: `answer_choice` of the last object, even if truncated, or a bare letter.

    Raises:
        Unparsable: there is none, or it is not an option.
    """
    text = _said(text)
    found = [o["answer_choice"] for o in _decode(text) if "answer_choice" in o]
    if found:
        value = found[-1]
    elif cut := re.findall(r'"answer_choice"\s*:\s*"([^"\n]*)', text):
        value = cut[-1]
    else:
        value = re.sub(r"^\s*(?:final\s+)?answer\s*(?::|is)\s*", "", text, flags=re.IGNORECASE)
    letter = _letter(value, options)
    if letter is None:
        raise Unparsable(f"expected answer_choice, one of {', '.join(options)}, got {_shown(str(value))}")
    return letter


def _letter(value: Any, options: Mapping[str, str]) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.strip().strip("\"'*`.()[] \n")
    for key in options:
        if text.casefold() == key.casefold():
            return key
    named = [key for key, option in options.items() if option.strip().strip(".").casefold() == text.casefold()]
    if len(named) == 1:
        return named[0]
    # "B. text" and "(B) text", but not a word: "A fever" is not option A.
    match = re.match(r"[(\[]?(\w{1,8})\s*[.):\]]\s*(.*)", value.strip(), re.DOTALL)
    return match[1] if match and match[1] in options else None


def text_answer(text: str) -> str:
    """The text `answer` of the last object, or the whole output if it has no object.

    Raises:
        Unparsable: there is none, or it is blank.
    """
    text = _said(text)
    found = [o["answer"] for o in _decode(text) if "answer" in o]
    if found:
        value = found[-1]
    elif "{" in text and '"answer"' in text:
        raise Unparsable(f"expected an object with answer, got one that cannot be read: {_shown(text)}")
    else:
        value = text
    if not isinstance(value, str) or not value.strip():
        raise Unparsable(f"expected answer, a text that is not blank, got {_shown(str(value))}")
    return printable(value.strip())


def plain(text: str) -> str:
    """The whole output.

    Raises:
        Unparsable: it is blank, or too long.
    """
    text = _said(text).strip()
    if not text:
        raise Unparsable("expected a text that is not blank, got nothing")
    return printable(text)


def extraction(text: str) -> str:
    """The extracted text; empty if the output says that there is none.

    Raises:
        Unparsable: the output is blank, or too long.
    """
    found = plain(text)
    return "" if found.strip("\"'`.* \n").casefold() == NOTHING else found


def query(text: str) -> str:
    """The text `query` of the only object, on one line.

    Raises:
        Unparsable: it is missing, blank, or longer than `MAX_QUERY_CHARS`.
    """
    value = _only(text, "query")
    if not isinstance(value, str) or not 0 < len(value.strip()) <= MAX_QUERY_CHARS:
        raise Unparsable(f"expected query, a text of 1 to {MAX_QUERY_CHARS} characters, got {_shown(str(value))}")
    return printable(" ".join(value.split()))


def verdict(text: str, vocabulary: Sequence[V]) -> V:
    """The word `verdict` of the only object: one of the vocabulary, in upper or lower case, and nothing else.

    Raises:
        Unparsable: anything else.
    """
    value = _only(text, "verdict")
    for word in vocabulary:
        if isinstance(value, str) and value.strip().lower() == word:
            return word
    raise Unparsable(f"expected verdict, one of {', '.join(vocabulary)}, got {_shown(str(value))}")


def judgement(text: str) -> Judgement:
    """Three marks of the only object.

    Raises:
        Unparsable: a mark is missing, not a number, or outside [0, 10].
    """
    marks = {}
    for name in ("correctness", "completeness", "relevance"):
        value = _only(text, name)
        if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value <= 10):
            raise Unparsable(f"expected {name}, a number from 0 to 10, got {_shown(str(value))}")
        marks[name] = float(value)
    return Judgement(**marks)


def _only(text: str, key: str) -> Any:
    """The value of a key that exactly one object has; objects with equal values count as one."""
    found = [o[key] for o in _decode(_said(text)) if key in o]
    if not found:
        raise Unparsable(f"expected an object with {key}, got {_shown(text)}")
    if any(value != found[0] for value in found):
        raise Unparsable(f"expected one {key}, got several: {_shown(text)}")
    return found[0]


def _decode(text: str) -> Iterator[dict[str, Any]]:
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


def _said(text: str) -> str:
    """An output without the reasoning text that some servers put before it."""
    if len(text) > MAX_CHARS:
        raise Unparsable(f"expected at most {MAX_CHARS} characters, got {len(text)}")
    return text.rpartition("</think>")[2]


def _shown(text: str) -> str:
    text = " ".join(printable(text[:400]).split())
    return repr(text[:120] + "…" if len(text) > 120 else text)
