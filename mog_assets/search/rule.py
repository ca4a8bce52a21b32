"""Weights of experts by rule: where the router starts, and what says before it which candidates are good.

A candidate's score is the weighted sum of what the retrievers at all levels give it, each from 0, the question's worst
candidate, to 1, its best. Three things decide the weight of one, none of which needs a question that has an answer:

- its retriever: vectors count more than BM25 where the encoder knows the language of question and texts, else less;
- its confidence: how far its best candidate stands out, and how few candidates share its scores;
- its level: coarse levels count more where documents are short, because there a coarse chunk is most of its document,
  and fine ones where documents are long, because there it does not say where in the document.

The constants were chosen on open collections with one left out in turn (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from mog_assets.search.candidates import Candidates

# A vocabulary with this share of the frequent terms of texts knows their language, one with less than `FOREIGN` does
# not. Of the embedded encoder: English .59 to .77, French .34, German .23, Chinese and Japanese below .02.
NATIVE, FOREIGN = 0.55, 0.45
# Pieces of a document at which all levels count alike. Half as many are short, twice as many long.
_PIECES = 32


def kind(name: str) -> str:
    """Return the kind of an expert by its name: `bm25` of `bm25-1`."""
    return name.partition("-")[0]


def of_texts(experts: Sequence[str]) -> np.ndarray:
    """Return which experts are a retriever at a level, bool of shape (experts,)."""
    return np.array([kind(name) in ("bm25", "dense") for name in experts], bool)


@cache
def _described(experts: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns of experts of texts, which are of vectors, and levels less the mean."""
    texts = np.flatnonzero(of_texts(experts))
    levels = np.array([int(experts[column].rpartition("-")[2]) for column in texts])
    dense = np.array([kind(experts[column]) == "dense" for column in texts], bool)
    return texts, dense, levels - levels.mean()


@dataclass(frozen=True)
class Rule:
    """Weights of experts of texts; the defaults are those in use.

    Attributes:
        vectors: Weight of vectors where the encoder knows the language of the texts; that of BM25 is 1.
        foreign: Weight of vectors where it just does not; the less it knows of it the less, down to 0.
        confidence: Exponent of an expert's confidence; 0 ignores it.
        slope: Change of the logarithm of the weight from a level to the next, in documents of half of `_PIECES` or
            less; as much the other way in those of twice as many or more.
    """

    vectors: float = 2.0
    foreign: float = 0.5
    confidence: float = 0.2
    slope: float = 0.2

    def weights(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Return the weight of every expert for each question, float32 of shape (questions, experts), 0 or more.

        Args:
            candidates: Of the questions.
            experts: Names of the experts, by column of the scores; those of other kinds weigh nothing.
        """
        texts, dense, levels = _described(tuple(experts))
        weights, confidence = np.zeros(candidates.shape), candidates.confidence
        # An expert that tells no candidates apart has no confidence at all.
        sure = np.maximum(confidence[:, texts], 1e-9) ** self.confidence
        sure /= np.maximum(np.add.reduce(sure, axis=1, keepdims=True) / len(texts), 1e-9)
        short = np.interp(np.log2(np.maximum(candidates.typical_pieces, 1) / _PIECES), (-1, 1), (1, -1))
        steps = self.slope * short[:, None] * levels
        vectors = np.interp(candidates.vocabulary, (0, FOREIGN, NATIVE), (0, self.foreign, self.vectors))
        retriever = np.where(dense, vectors[:, None], 1.0)
        weights[:, texts] = sure * np.exp(steps) * retriever
        return weights.astype(np.float32)
