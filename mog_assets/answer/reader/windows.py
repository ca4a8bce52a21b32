"""Windows: as much of a passage as the reader reads at once, with the question before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mog_assets.text.cuts import units

# Tokens of a window; of these, at most so many of the question and of the title.
WINDOW, QUESTION, TITLE = 192, 64, 24
# Characters of the longest sentence that is not divided.
_LONGEST = 480
# Tokens of text in a window, at least.
_ROOM = 24


@dataclass(frozen=True)
class TextTokens:
    """Word pieces of a text.

    Attributes:
        ids: int64 of shape (n,).
        spans: Characters of each, shape (n, 2).
    """

    ids: np.ndarray
    spans: np.ndarray

    def part(self, start: int, end: int) -> TextTokens:
        """Return some of them."""
        return TextTokens(self.ids[start:end], self.spans[start:end])


@dataclass(frozen=True)
class Window:
    """A question, a title and a part of a text.

    Attributes:
        ids: Tokens, int64 of shape (n,).
        kinds: 0 question, 1 text, 2 text with a word of the question; of shape (n,).
        spans: Characters of each token in `title` (rows before `body`) or in the text; −1 where there can be no answer.
        body: The first token of the text.
    """

    ids: np.ndarray
    kinds: np.ndarray
    spans: np.ndarray
    body: int


class ReaderTokenizer:
    """The encoder's tokenizer, with the place of every token.

    Args:
        folder: Folder with tokenizer.json.
    """

    def __init__(self, folder: Path) -> None:
        from bm25s.stopwords import STOPWORDS_EN_PLUS
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        words = self._tokenizer.get_vocab()
        self.first, self.end, self._colon = words["[CLS]"], words["[SEP]"], words[":"]
        self._says = np.zeros(max(words.values()) + 1, bool)
        sizes = [
            n
            for word, n in words.items()
            if word.lstrip("#").isalnum() and word not in STOPWORDS_EN_PLUS and len(word) > 1
        ]
        self._says[sizes] = True

    def __call__(self, texts: Sequence[str]) -> list[TextTokens]:
        """Return tokens of each text."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            TextTokens(np.array(one.ids, np.int64), np.array(one.offsets, np.int64).reshape(len(one.ids), 2))
            for one in encodings
        ]

    def window(self, question: TextTokens, title: TextTokens, text: TextTokens) -> Window:
        """Return a window; the question and the title are cut to their limits, the text must fit."""
        question, title = question.part(0, QUESTION), title.part(0, TITLE)
        before = np.concatenate([[self.first], question.ids, [self.end]])
        ids = np.concatenate([before, title.ids, np.full(int(len(title.ids) > 0), self._colon), text.ids, [self.end]])
        body = len(ids) - 1 - len(text.ids)
        kinds = np.ones(len(ids), np.int64)
        kinds[self._says[ids] & np.isin(ids, question.ids)] = 2
        kinds[: len(before)] = kinds[-1] = 0
        spans = np.full((len(ids), 2), -1, np.int64)
        spans[len(before) : len(before) + len(title.ids)] = title.spans
        spans[body:-1] = text.spans
        return Window(ids.astype(np.int64), kinds, spans, body)


def room(question: TextTokens, title: TextTokens, limit: int = WINDOW) -> int:
    """Return tokens of text that fit into a window, at least `_ROOM`: the window is longer if it must be."""
    return max(limit - min(len(question.ids), QUESTION) - min(len(title.ids), TITLE) - 4, _ROOM)


def sentences(text: str, tokens: TextTokens) -> np.ndarray:
    """Return the first token of every sentence, and the number of tokens."""
    starts = np.concatenate([[0], units(text, _LONGEST)[:-1]])
    return np.append(np.unique(np.searchsorted(tokens.spans[:, 0], starts)), len(tokens.ids))


def parts(bounds: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield runs of sentences that fit; each but the first begins with the last of the run before, if that is short."""
    start, count = 0, int(bounds[-1])
    while start < count:
        stop = int(bounds[np.searchsorted(bounds, start + most, side="right") - 1])
        stop = stop if stop > start else min(start + most, count)
        yield start, stop
        if stop >= count:
            return
        place = int(np.searchsorted(bounds, stop, side="left"))
        last, following = int(bounds[place - 1]), int(bounds[min(place + (bounds[place] == stop), len(bounds) - 1)])
        # Nothing new would fit beside it if the next sentence is long.
        overlaps = start < last and stop - last < most // 3 and following <= last + most
        start = last if overlaps else stop
