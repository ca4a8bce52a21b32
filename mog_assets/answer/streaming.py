"""The text of an answer while a language model still writes the JSON object that it stands in."""

from __future__ import annotations

import json
import re

from mog_assets.answer.replies import MARKS

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
