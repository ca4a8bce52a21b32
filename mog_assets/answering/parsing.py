"""Parse model outputs: tolerant of text around an answer, strict about verdicts and marks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from mog_assets.answering.roles import NOTHING, Judgement
from mog_assets.replies import Unparsable, decode, only, printable, said, shown

V = TypeVar("V", bound=str)

MAX_QUERY_CHARS = 1_000


def choice(text: str, options: Mapping[str, str]) -> str:
    """The letter of an option: `answer_choice` of the last object, even if truncated, or a bare letter.

    Raises:
        Unparsable: there is none, or it is not an option.
    """
    text = said(text)
    found = [o["answer_choice"] for o in decode(text) if "answer_choice" in o]
    if found:
        value = found[-1]
    elif cut := re.findall(r'"answer_choice"\s*:\s*"([^"\n]*)', text):
        value = cut[-1]
    else:
        value = re.sub(r"^\s*(?:final\s+)?answer\s*(?::|is)\s*", "", text, flags=re.IGNORECASE)
    letter = _letter(value, options)
    if letter is None:
        raise Unparsable(f"expected answer_choice, one of {', '.join(options)}, got {shown(str(value))}")
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
    text = said(text)
    found = [o["answer"] for o in decode(text) if "answer" in o]
    if found:
        value = found[-1]
    elif "{" in text and '"answer"' in text:
        raise Unparsable(f"expected an object with answer, got one that cannot be read: {shown(text)}")
    else:
        value = text
    if not isinstance(value, str) or not value.strip():
        raise Unparsable(f"expected answer, a text that is not blank, got {shown(str(value))}")
    return printable(value.strip())


def plain(text: str) -> str:
    """The whole output.

    Raises:
        Unparsable: it is blank, or too long.
    """
    text = said(text).strip()
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
    value = only(text, "query")
    if not isinstance(value, str) or not 0 < len(value.strip()) <= MAX_QUERY_CHARS:
        raise Unparsable(f"expected query, a text of 1 to {MAX_QUERY_CHARS} characters, got {shown(str(value))}")
    return printable(" ".join(value.split()))


def verdict(text: str, vocabulary: Sequence[V]) -> V:
    """The word `verdict` of the only object: one of the vocabulary, in upper or lower case, and nothing else.

    Raises:
        Unparsable: anything else.
    """
    value = only(text, "verdict")
    for word in vocabulary:
        if isinstance(value, str) and value.strip().lower() == word:
            return word
    raise Unparsable(f"expected verdict, one of {', '.join(vocabulary)}, got {shown(str(value))}")


def judgement(text: str) -> Judgement:
    """Three marks of the only object.

    Raises:
        Unparsable: a mark is missing, not a number, or outside [0, 10].
    """
    marks = {}
    for name in ("correctness", "completeness", "relevance"):
        value = only(text, name)
        if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value <= 10):
            raise Unparsable(f"expected {name}, a number from 0 to 10, got {shown(str(value))}")
        marks[name] = float(value)
    return Judgement(**marks)
