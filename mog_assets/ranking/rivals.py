"""`rrf` and `umg`: published ways to put the scores of several retrievers and levels together without training.

They are here to be compared with, over the same candidates and experts of texts as `fused`, and are shown as published:
known items do not come first, and what texts name does not count.

`rrf` adds the reciprocal ranks of a piece by every expert. `umg` turns the scores of every expert into a distribution
over the candidates (a softmax) and adds these, weighed by one minus their normalised entropy: an expert that prefers a
few candidates is reliable, one that tells nothing apart is not. It was made from the abstract of the paper, whose text
was not at hand, so the temperature, the range of the scores (0 to 1) and the candidates (all that any expert finds,
not a list for each expert) are ours, and two factors of reliability, that of a retriever and that of a granularity, may
be one here. It leaves out UMGP, which returns the parents of the best fine chunks, and the paper's reader.

References: Cormack, Clarke and Büttcher 2009 (reciprocal rank fusion); Jung and Wang 2026 (UMG, arXiv 2606.13550).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.arrays import places
from mog_assets.ranking.candidates import Candidates
from mog_assets.ranking.experts import of_texts


@dataclass(frozen=True)
class ReciprocalRanks:
    """`rrf`: the sum of 1 / (`constant` + rank) over all experts of texts.

    Ranks are those of texts among the candidates of the question, from 1: pieces of one chunk have the same score at
    its level, and so the same rank. An expert gives nothing to a text that it scores 0 or less.
    """

    constant: int = 60
    lifts = False

    def weights(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """1 for every expert of texts, 0 for others; see `blend.Blend.weights`."""
        return np.repeat(of_texts(experts)[None].astype(np.float32), len(candidates.floors), axis=0)

    def parts(self, candidates: Candidates, experts: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """What every expert gives to some candidates; see `blend.Blend.parts`."""
        parts = np.zeros((len(rows), len(experts)))
        for column in np.flatnonzero(of_texts(experts)).tolist():
            parts[:, column] = self._reciprocal(candidates, candidates.scores[:, column])[rows]
        return parts

    def scores(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Score of every candidate, float64 of shape (n,); see `blend.Blend.scores`."""
        total = np.zeros(len(candidates.question))
        for column in np.flatnonzero(of_texts(experts)).tolist():
            total += self._reciprocal(candidates, candidates.scores[:, column])
        return total

    def _reciprocal(self, candidates: Candidates, scores: np.ndarray) -> np.ndarray:
        question = candidates.question
        # By question they are in order already, so rows of a question stay together.
        order = np.lexsort((-scores, question))
        scores = scores[order]
        other = np.concatenate([[True], scores[1:] != scores[:-1]])[: len(scores)] | (places(question) == 0)
        count = np.cumsum(other)
        rank = count - count[candidates.offsets[question]] + 1
        gains = np.zeros(len(scores))
        gains[order] = np.where(scores > 0, 1 / (self.constant + rank), 0)
        return gains


@dataclass(frozen=True)
class Entropy:
    """`umg`: see above. The weight of an expert is `Candidates.certainty`."""

    lifts = False

    def weights(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """One minus the normalised entropy of every expert of texts, 0 for others; see `blend.Blend.weights`."""
        return np.where(of_texts(experts), np.maximum(candidates.certainty, 0), 0).astype(np.float32)

    def parts(self, candidates: Candidates, experts: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """What every expert gives to some candidates; see `blend.Blend.parts`."""
        powers, total = candidates.powers
        question = candidates.question[rows]
        return powers[rows] / total[question] * self.weights(candidates, experts)[question]

    def scores(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Score of every candidate, float64 of shape (n,); see `blend.Blend.scores`."""
        return self.parts(candidates, experts, np.arange(len(candidates.question))).sum(axis=1)


RRF, UMG = ReciprocalRanks(), Entropy()
