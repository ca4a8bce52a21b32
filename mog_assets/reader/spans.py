"""The best span of passages by a trained reader, and how far it is above "no answer"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mog_assets.reader import network
from mog_assets.reader.windows import Window, WordPieces, parts, room, sentences

# Tokens of the longest answer.
LONGEST = 24


@dataclass(frozen=True)
class Span:
    """A possible answer.

    Attributes:
        text: Its characters as they stand in the passage.
        passage: Position of the passage.
        start, end: Characters in the passage's text; both −1 if the answer is in its title.
        score: Logits of its first and last token, less those of "no answer" in the same window, in nats.
    """

    text: str
    passage: int
    start: int
    end: int
    score: float

    def at(self, passage: int) -> Span:
        """The same in another list of passages."""
        return replace(self, passage=passage)


class SpanReader:
    """Finds answers. Each window is read alone by one thread, so an answer depends on its passages only.

    Args:
        folder: Of the encoder: config.json, model.safetensors, tokenizer.json.
        arrays: What was trained, see `network.initial`.
    """

    def __init__(self, folder: Path, arrays: dict[str, np.ndarray]) -> None:
        self.words = WordPieces(folder)
        self._trained = network.tensors(arrays)
        self._bert = network.merged(network.load(folder), self._trained)

    def best(self, question: str, passages: Sequence[tuple[str, str]]) -> list[Span]:
        """The best span of every window, best first.

        Args:
            question: The question.
            passages: Title and text of each.
        """
        asked, *told = self.words([question, *(part for passage in passages for part in passage)])
        found: list[Span] = []
        for number, (title, text) in enumerate(passages):
            named, tokens = told[2 * number : 2 * number + 2]
            bounds = sentences(text, tokens)
            for start, end in parts(bounds, room(asked, named)):
                window = self.words.window(asked, named, tokens.part(start, end))
                first, last, score = pointed(window, self._logits(window))
                inside = first >= window.body
                # A span begins and ends in the same text.
                begin, stop = int(window.spans[first, 0]), int(window.spans[last, 1])
                said = (text if inside else title)[begin:stop]
                place = (begin, stop) if inside else (-1, -1)
                found.append(Span(said, number, *place, score))
        return sorted(found, key=lambda span: -span.score)

    def _logits(self, window: Window) -> np.ndarray:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.inference_mode():
                ids, kinds = (torch.from_numpy(array)[None] for array in (window.ids, window.kinds))
                made: Tensor = network.logits(self._bert, self._trained, ids, kinds, torch.ones_like(ids))
                return np.asarray(made[0].numpy(), np.float64)
        finally:
            torch.set_num_threads(threads)


def pointed(window: Window, logits: np.ndarray) -> tuple[int, int, float]:
    """First and last token of the best span of a window, and its score less that of "no answer".

    Args:
        window: The window.
        logits: Shape (tokens, 2).
    """
    places = np.flatnonzero(window.spans[:, 0] >= 0)
    first, last = logits[places, 0], logits[places, 1]
    sums = first[:, None] + last[None, :]
    length = places[None, :] - places[:, None]
    # A span is in the title or in the text.
    inside = places >= window.body
    allowed = (length >= 0) & (length < LONGEST) & (inside[:, None] == inside[None, :])
    best = int(np.argmax(np.where(allowed, sums, -np.inf)))
    i, j = divmod(best, len(places))
    return int(places[i]), int(places[j]), float(sums[i, j] - logits[0].sum())
