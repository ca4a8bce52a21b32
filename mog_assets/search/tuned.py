"""`tuned`: the weights of `fused`, fitted on few questions.

Ten questions cannot train a network, but they can say whether vectors deserve more weight, whether coarse levels do,
how far confidence is to be trusted, and what names are worth. These four numbers are fitted by likelihood: a softmax
over a question's candidates is to have the shares of the evidence. A Gaussian prior at the numbers of `fused` holds
what few questions cannot tell; its widths were chosen on eleven collections (benchmarks/README.md), as was that there
are four numbers: a weight for each expert gained no more with 20, 100 or 400 questions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mog_assets.search.candidates import Candidates
from mog_assets.search.fused import Blend

# More questions change the numbers little and take longer.
QUESTIONS = 300
# What is fitted: logarithm of a factor of the weights of vectors; tilt; confidence; logarithm of a factor of the
# weights of what texts name; and logarithm of the steepness of the softmax, which does not rank.
_MEANS = np.array([0.0, 0.0, Blend.confidence, 0.0, -0.25])
_WIDTHS = np.array([0.5, 0.2, 0.2, 0.5, 1.0])
# In widths: no number goes farther from its mean.
_FARTHEST = 5.0


def train(
    candidates: Candidates, covered: np.ndarray, experts: Sequence[str], usable: np.ndarray | None = None
) -> Blend:
    """Fit the weights.

    Args:
        candidates: Candidates of the training questions.
        covered: Characters of evidence in each, shape (n,); questions without any teach nothing.
        experts: Names of the experts, by column of the scores.
        usable: Candidates that say something, bool of shape (n,), all with evidence among them; None for all.

    Returns:
        What weighs experts; that of `fused` if no candidate has evidence.
    """
    from scipy.optimize import minimize

    question, questions = candidates.question, candidates.count
    total = np.bincount(question, covered, questions)
    if not total.any():
        return Blend()
    share = covered / np.maximum(total, 1)[question]
    says = np.ones(len(question), bool) if usable is None else usable

    def loss(place: np.ndarray) -> float:
        weights = _blend(place).weights(candidates, experts)
        value = np.einsum("ij,ij->i", candidates.relative, weights[question]) * np.exp(_numbers(place)[-1])
        value = np.where(says, value, -np.inf)
        most = np.full(questions, -np.inf)
        np.maximum.at(most, question, value)
        below = value - most[question]
        chances = np.log(np.bincount(question, np.exp(below), questions)[question])
        likelihood = (share * np.where(share > 0, below - chances, 0)).sum()
        return float((place**2).sum() / 2 - likelihood)

    # Weights have single precision, which finer steps would not see.
    bounds = [(-_FARTHEST, _FARTHEST)] * len(_MEANS)
    return _blend(minimize(loss, np.zeros(len(_MEANS)), method="L-BFGS-B", bounds=bounds, options={"eps": 0.01}).x)


def _numbers(place: np.ndarray) -> np.ndarray:
    """Return what is fitted, given how many widths of the prior each number is from its mean."""
    return _MEANS + _WIDTHS * place


def _blend(place: np.ndarray) -> Blend:
    vectors, tilt, confidence, names, _ = _numbers(place).tolist()
    base, vectors, names = Blend(), math.exp(vectors), math.exp(names)
    return replace(
        base,
        vectors=base.vectors * vectors,
        foreign=base.foreign * vectors,
        tilt=tilt,
        confidence=confidence,
        mention=base.mention * names,
        pagerank=base.pagerank * names,
    )
