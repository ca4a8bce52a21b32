"""`fused`: experts of all levels and retrievers, weighed for every question without training.

A candidate's score is the weighted sum of what the experts give it, each from 0, the question's worst candidate, to 1,
its best. Three things decide the weight of an expert of texts, none of which needs a question that has an answer:

- its retriever: vectors count more than BM25 where the encoder knows the language of question and texts, else less;
- its confidence: how far its best candidate stands out, and how few candidates share its scores;
- its level: coarse levels count more where documents are short, because there a coarse chunk is most of its document,
  and fine ones where documents are long, because there it does not say where in the document.

An expert of what texts name counts where it is confident: where the best texts name one document and not many, it is
the next one that a question over several documents needs.

All of it follows from the candidates of the question, so a ranking stays as it is while these do. The constants were
chosen on eleven collections in four languages with one left out in turn (benchmarks/README.md).

References: Jung and Wang 2026 (UMG, arXiv 2606.13550), for weighing granularities by the entropy of their scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mog_assets.registry import EXPERTS
from mog_assets.search.candidates import Candidates, Inputs
from mog_assets.search.exact import boosted

# A vocabulary with this share of the frequent terms of texts knows their language, one with less than `_FOREIGN` does
# not. Of the embedded encoder: English .59 to .77, French .34, German .23, Chinese and Japanese below .02.
_NATIVE, _FOREIGN = 0.55, 0.45
# Pieces of a document at which all levels count alike. Half as many are short, twice as many long.
_PIECES = 32
# Confidence from which an expert of what texts name counts, and from which it counts in full. Below, where many
# documents are named, questions about one document would lose.
_FAINT, _CLEAR = 1.5, 4.0
_RELATIONS = ("mention", "pagerank")


def kind(name: str) -> str:
    """Return the kind of an expert by its name: `bm25` of `bm25-1`."""
    return name.partition("-")[0]


def of_texts(experts: Sequence[str]) -> np.ndarray:
    """Return which experts are a retriever at a level, bool of shape (experts,)."""
    return np.array([kind(name) in ("bm25", "dense") for name in experts], bool)


@lru_cache
def _described(experts: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, int], list[Any]]:
    """Return columns of experts of texts, which are of vectors, levels less the mean; of relations; and of others."""
    texts = np.flatnonzero(of_texts(experts))
    levels = np.array([int(experts[column].rpartition("-")[2]) for column in texts])
    dense = np.array([kind(experts[column]) == "dense" for column in texts], bool)
    relations = {name: experts.index(name) for name in _RELATIONS if name in experts}
    others = sorted({*range(len(experts))} - {*texts.tolist(), *relations.values()})
    added = [(column, EXPERTS[experts[column]]) for column in others if experts[column] in EXPERTS]
    return texts, dense, levels - levels.mean(), relations, added


@dataclass(frozen=True)
class Blend:
    """Weights of experts; the defaults are those of `fused`.

    Attributes:
        vectors: Weight of vectors where the encoder knows the language of the texts; that of BM25 is 1.
        foreign: Weight of vectors where it just does not; the less it knows of it the less, down to 0.
        confidence: Exponent of an expert's confidence; 0 ignores it.
        slope: Change of the logarithm of the weight from a level to the next, in documents of half of `_PIECES` or
            less; as much the other way in those of twice as many or more.
        tilt: The same in documents of any length.
        mention, pagerank: Weights of the experts of what texts name, where they are confident.
    """

    vectors: float = 2.0
    foreign: float = 0.5
    confidence: float = 0.2
    slope: float = 0.4
    tilt: float = 0.0
    mention: float = 2.0
    pagerank: float = 2.0
    # Whether experts count that read texts together with the question.
    reads = False

    def weights(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Return the weight of every expert for each question, float32 of shape (questions, experts), 0 or more.

        Args:
            candidates: Of the questions.
            experts: Names of the experts, by column of the scores; those of other kinds weigh what they say themselves.
        """
        texts, dense, levels, relations, added = _described(tuple(experts))
        weights, confidence = np.zeros(candidates.shape), candidates.confidence
        for name, column in relations.items():
            weights[:, column] = np.interp(confidence[:, column], (_FAINT, _CLEAR), (0, getattr(self, name)))
        for column, expert in added:
            if self.reads or not expert.reads:
                weights[:, column] = expert.weight
        # An expert that tells no candidates apart has no confidence at all.
        sure = np.maximum(confidence[:, texts], 1e-9) ** self.confidence
        sure /= np.maximum(np.add.reduce(sure, axis=1, keepdims=True) / len(texts), 1e-9)
        short = np.interp(np.log2(np.maximum(candidates.typical_pieces, 1) / _PIECES), (-1, 1), (1, -1))
        steps = (self.slope * short[:, None] + self.tilt) * levels
        vectors = np.interp(candidates.vocabulary, (0, _FOREIGN, _NATIVE), (0, self.foreign, self.vectors))
        retriever = np.where(dense, vectors[:, None], 1.0)
        weights[:, texts] = sure * np.exp(steps) * retriever
        return weights.astype(np.float32)

    def scores(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Score of every candidate, known items first, float64 of shape (n,); arguments as those of `weights`."""
        weights = self.weights(candidates, experts)[candidates.question]
        return boosted(candidates, np.einsum("ij,ij->i", candidates.relative, weights, dtype=np.float32))

    def parts(self, candidates: Candidates, experts: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """Return what every expert gives to the scores of some candidates, shape (rows, experts).

        Args:
            candidates: Of the questions.
            experts: See `weights`.
            rows: Rows of the candidates.
        """
        return candidates.relative[rows] * self.weights(candidates, experts)[candidates.question[rows]]


@dataclass(frozen=True)
class Reranked(Blend):
    """`reranked`: as `fused`, with experts that read texts together with the question."""

    reads = True


@dataclass(frozen=True)
class Rules:
    """A ranking without training: `fused` and `multihop`. `experts` are the names of the experts."""

    weighing: Blend
    experts: Sequence[str]

    def weights(self, inputs: Inputs) -> np.ndarray:
        """Return the weight of every expert for each question."""
        return self.weighing.weights(inputs.candidates, self.experts)

    def parts(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Return what every expert gives to the scores of some candidates, shape (rows, experts)."""
        return self.weighing.parts(inputs.candidates, self.experts, rows)

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Score of every candidate."""
        return self.weighing.scores(inputs.candidates, self.experts)
