"""What the reader is shown in training: windows of documents, with and without the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.answer.reader.windows import WINDOW, ReaderTokenizer, TextTokens, Window, room, sentences

# Windows in training are of different lengths, so that the place of an answer says nothing.
SHORTEST = 80


@dataclass(frozen=True)
class TokenisedDocument:
    """A document in tokens, with the first token of every sentence (see `windows.sentences`)."""

    title: TextTokens
    text: TextTokens
    bounds: np.ndarray

    @classmethod
    def of(cls, words: ReaderTokenizer, title: str, text: str) -> TokenisedDocument:
        """Return a document's texts in tokens."""
        texts, tokens = words([title, text])
        return cls(texts, tokens, sentences(text, tokens))

    def at(self, character: int) -> int:
        """Return the token at a character, or before it if none is there."""
        return max(int(np.searchsorted(self.text.spans[:, 0], character, side="right")) - 1, 0)


@dataclass(frozen=True)
class Lesson:
    """A question with the places of its answer and passages that lack it.

    Attributes:
        answers: (document, start, end) in characters, at least one.
        misleading: (document, start) of passages that lack the answer, best first.
    """

    question: TextTokens
    answers: Sequence[tuple[int, int, int]]
    misleading: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class ReaderExample:
    """A window with the tokens of its answer, first and last; 0 and 0 if it has none."""

    window: Window
    first: int
    last: int


def shown(
    lesson: Lesson, documents: Mapping[int, TokenisedDocument], words: ReaderTokenizer, random: np.random.Generator
) -> list[ReaderExample]:
    """Return windows of a question for an epoch: one with the answer, one without where something misleads."""
    limit, windows = int(random.integers(SHORTEST, WINDOW + 1)), list[ReaderExample]()
    number, start, end = lesson.answers[int(random.integers(len(lesson.answers)))]
    document = documents[number]
    most = room(lesson.question, document.title, limit)
    first, last = document.at(start), document.at(end - 1)
    if last - first < most:
        # The window begins with a sentence, from which the end of the answer is within reach.
        begins = document.bounds[(document.bounds <= first) & (document.bounds + most > last)]
        begin = int(begins[int(random.integers(len(begins)))]) if len(begins) else max(last + 1 - most, 0)
        window = _window(lesson, document, begin, last + 1, most, words)
        windows.append(ReaderExample(window, window.body + first - begin, window.body + last - begin))
    if lesson.misleading:
        number, start = lesson.misleading[int(random.integers(len(lesson.misleading)))]
        document = documents[number]
        begin = int(document.bounds[np.searchsorted(document.bounds, document.at(start), side="right") - 1])
        most = room(lesson.question, document.title, limit)
        windows.append(ReaderExample(_window(lesson, document, begin, begin + 1, most, words), 0, 0))
    return windows


def _window(
    lesson: Lesson, document: TokenisedDocument, begin: int, least: int, most: int, words: ReaderTokenizer
) -> Window:
    """Return a window from a token: of whole sentences, if those that fit reach the token `least`."""
    end = int(document.bounds[np.searchsorted(document.bounds, begin + most, side="right") - 1])
    end = end if end >= least else min(begin + most, len(document.text.ids))
    return words.window(lesson.question, document.title, document.text.part(begin, end))
