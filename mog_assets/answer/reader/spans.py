"""The best span of passages by a trained reader, and how far it is above "no answer"."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mog_assets.answer.reader import network
from mog_assets.answer.reader.windows import ReaderTokenizer, Window, parts, room, sentences

# Tokens of the longest answer.
LONGEST = 24


@dataclass(frozen=True)
class ReaderSpan:
    """A possible answer.

    Attributes:
        text: Its characters as they stand in the passage.
        passage: Position of the passage.
        start, end: Characters in the passage's text; both −1 if the answer is in its title.
        score: Logits of its first and last token, less those of "no answer" in the same window, in nats.
        probability: That it is right, in [0, 1]; NaN before it is calibrated.
    """

    text: str
    passage: int
    start: int
    end: int
    score: float
    probability: float = float("nan")


class SpanReader:
    """Finds answers. Each window is read alone by one thread, so an answer depends on its passages only.

    Args:
        folder: Of the encoder: config.json, model.safetensors, tokenizer.json.
        arrays: What was trained, see `network.shapes`.
    """

    def __init__(self, folder: Path, arrays: dict[str, np.ndarray]) -> None:
        self.words = ReaderTokenizer(folder)
        self._trained = network.tensors(arrays)
        self._bert = network.merged(network.load(folder), self._trained)

    def best(self, question: str, passages: Sequence[tuple[str, str]]) -> list[ReaderSpan]:
        """Return the best span of every window, best first."""
        question_tokens, *parts_tokens = self.words([question, *(part for passage in passages for part in passage)])
        windows: list[tuple[int, Window]] = []
        for number, (_, text) in enumerate(passages):
            named, tokens = parts_tokens[2 * number : 2 * number + 2]
            for start, end in parts(sentences(text, tokens), room(question_tokens, named)):
                windows.append((number, self.words.window(question_tokens, named, tokens.part(start, end))))
        spans: list[ReaderSpan] = []
        for (number, window), logits in zip(windows, self._logits([window for _, window in windows]), strict=True):
            first, last, score = pointed(window, logits)
            inside = first >= window.body
            # A span begins and ends in the same text.
            begin, stop = int(window.spans[first, 0]), int(window.spans[last, 1])
            answer = passages[number][inside][begin:stop]
            place = (begin, stop) if inside else (-1, -1)
            spans.append(ReaderSpan(answer, number, *place, score))
        return sorted(spans, key=lambda span: -span.score)

    def _logits(self, windows: Sequence[Window]) -> list[np.ndarray]:
        """Return logits of each window, by as many threads as torch has."""
        threads = torch.get_num_threads()
        if not windows:
            return []
        # The number of threads set in the pool is also the default for later threads.
        try:
            with ThreadPoolExecutor(
                min(threads, len(windows)), initializer=torch.set_num_threads, initargs=(1,)
            ) as pool:
                return list(pool.map(self._logits_of, windows))
        finally:
            torch.set_num_threads(threads)

    def _logits_of(self, window: Window) -> np.ndarray:
        with torch.inference_mode():
            ids, kinds = (torch.from_numpy(array)[None] for array in (window.ids, window.kinds))
            logits: Tensor = network.logits(self._bert, self._trained, ids, kinds, torch.ones_like(ids))
            return np.asarray(logits[0].numpy(), np.float64)


def pointed(window: Window, logits: np.ndarray) -> tuple[int, int, float]:
    """Return first and last token of the best span of a window, and its score less that of "no answer"."""
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
