"""What each role reads in a reply: tolerant of text around an answer, strict about the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mog_assets.answer.replies import MARKS, Unparsable, agreed, decode, only, said, shown, whole, worded

# The key of an answer that names the documents it rests on.
CITED = "documents"
MAX_QUERY_CHARS = 1_000


def choice(text: str, options: Mapping[str, str]) -> str:
    """The letter of an option: `answer_choice` of the only object, or a bare letter.

    In an object that is not valid JSON, such as one with quotes inside its reasoning, the value must end.

    Raises:
        Unparsable: there is none, it is not an option, or there are several.
    """
    text, wanted = said(text), f"answer_choice, one of {', '.join(options)}"
    try:
        objects = decode(text)
    except Unparsable:
        value = agreed(re.findall(r'"answer_choice"\s*:\s*"([^"\n]*)"', text), "answer_choice")
    else:
        if objects:
            value = agreed([o["answer_choice"] for o in objects if "answer_choice" in o], "answer_choice")
        else:
            value = re.sub(r"^\s*(?:final\s+)?answer\s*(?::|is)\s*", "", whole(text, wanted), flags=re.IGNORECASE)
    letter = _letter(value, options)
    if letter is None:
        raise Unparsable(f"expected {wanted}, got {shown(str(value))}")
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
    if not match or match[1] not in options:
        return None
    if match[2].strip().casefold() == options[match[1]].strip().casefold():
        return match[1]
    # Another letter after it: an option that is weighed, or the list of all; "A" before a word is an article.
    others = [key for key in options if key != match[1]]
    weighed = any(re.search(rf"(?<!\w){key}(?!\w)(?!(?<=A) [a-z])", match[2]) for key in others)
    return None if weighed else match[1]


def text_answer(text: str) -> str:
    """The text `answer` of the only object, or the whole output if it has no object.

    Raises:
        Unparsable: there is none, it is blank or a refusal, or there are several.
    """
    objects = decode(said(text))
    if not objects:
        return whole(text, "answer")
    return worded(agreed([o["answer"] for o in objects if "answer" in o], "answer"), "answer")


def cited(text: str, count: int) -> list[int]:
    """The numbers of the documents that an answer rests on, as a model says: from 1 to `count`, each once.

    Numbers of documents that there are not are left out. Empty if the output says nothing of the kind.
    """
    try:
        objects = decode(said(text))
    except Unparsable:
        return []
    named: list[Any] = next((o[CITED] for o in reversed(objects) if isinstance(o.get(CITED), list)), [])
    return list(dict.fromkeys(n for n in named if type(n) is int and 1 <= n <= count))


def query(text: str) -> str:
    """The text `query` of the only object, on one line.

    Raises:
        Unparsable: it is missing, blank, a refusal, or longer than `MAX_QUERY_CHARS`.
    """
    return " ".join(worded(only(text, "query"), "query", MAX_QUERY_CHARS).split())


# The key, and not a text that quotes it.
_KEY = re.compile(r'(?<!\\)"answer"\s*:\s*"')
_CHARACTERS = re.compile(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_BLANKS = re.compile(r"\s*\Z")
_BEGINS = re.compile(r"\s*(?:```\w*\s*)?\{")


class AnswerText:
    """Takes an output in pieces, and gives the text of its `answer`, without blanks at its ends.

    What is given stays: nothing is taken back. An output that has no such object gives nothing.
    """

    def __init__(self) -> None:
        self._raw, self._given, self._start = "", 0, 0

    def feed(self, piece: str) -> str:
        """Take a piece; returns what it adds to the text."""
        self._raw += piece
        # What comes before an object may be reasoning, also without a mark where it begins: its drafts are no answer.
        if not self._given:
            mark = next(reversed([*MARKS.finditer(self._raw)]), None)
            if mark["opens"] if mark else not _BEGINS.match(self._raw):
                return ""
            self._start = mark.end() if mark else 0
        key = _KEY.search(self._raw, self._start)
        if key is None:
            return ""
        characters = _CHARACTERS.match(self._raw, key.end())
        text: str = json.loads(f'"{characters[0] if characters else ""}"', strict=False)
        # Half of a character that is written as two.
        text = text[:-1] if text and "\ud800" <= text[-1] <= "\udbff" else text
        text = _BLANKS.sub("", text.lstrip())
        added, self._given = text[self._given :], max(self._given, len(text))
        return added
