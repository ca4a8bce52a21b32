"""`tuned`: the weights of `fused`, fitted on few questions.

Ten questions cannot train a network, but they can move the weights that were learned on many collections: a softmax
over a question's candidates is to have the shares of the evidence. A Gaussian prior at the weights of `fused` holds
what few questions cannot tell; its width was chosen on open collections (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.search.candidates import Candidates
from mog_assets.search.router import Features, Router, scaled

# More questions change the weights little and take longer.
QUESTIONS = 300
# Of the prior: of a weight times the deviation of its feature; of the logarithms of the factor of what texts name, and
# of the steepness of the softmax, which does not rank.
_WIDTH, _NAMES, _STEEPNESS = 0.06, 0.5, 1.0


def train(
    candidates: Candidates, covered: np.ndarray, experts: Sequence[str], usable: np.ndarray | None = None
) -> Router:
    """Fit the weights.

    Args:
        candidates: Candidates of the training questions.
        covered: Characters of evidence in each, shape (n,); questions without any teach nothing.
        experts: Names of the experts, by column of the scores.
        usable: Candidates that say something, bool of shape (n,), all with evidence among them; None for all.

    Returns:
        What weighs features; that of `fused` if no candidate has evidence.
    """
    from scipy.optimize import minimize

    features, question, questions = Features(candidates, experts), candidates.question, candidates.count
    router = Router.shipped().at_levels(features.columns.levels)
    total = np.bincount(question, covered, questions)
    if not total.any():
        return router
    rows = np.flatnonzero((total > 0)[question] & (True if usable is None else usable))
    question, share = question[rows], (covered / np.maximum(total, 1)[question])[rows]
    table, fixed = features.table[rows] / router.deviations, router.of_texts(features)
    # The scale of texts is that of the weights it starts from.
    named = (router.of_others(features).sum(axis=1) * scaled(candidates, fixed)[1][candidates.question])[rows]
    fixed = fixed[rows]
    width = np.concatenate([np.full(table.shape[1], _WIDTH), [_NAMES, _STEEPNESS]])

    def loss(place: np.ndarray) -> tuple[float, np.ndarray]:
        moved = place * width
        names, steep = np.exp(moved[-2:])
        plain = fixed + table @ moved[:-2] + names * named
        value = steep * plain
        most = np.full(questions, -np.inf)
        np.maximum.at(most, question, value)
        powers = np.exp(value - most[question])
        totals = np.maximum(np.bincount(question, powers, questions), 1e-300)
        chances = powers / totals[question]
        logs = value - most[question] - np.log(totals)[question]
        slopes = chances * np.bincount(question, share, questions)[question] - share
        gradient = np.append(steep * (slopes @ table), [steep * names * (slopes @ named), slopes @ value])
        return float((place**2).sum() / 2 - share @ logs), place + gradient * width

    place = minimize(loss, np.zeros(len(width)), jac=True, method="L-BFGS-B").x * width
    return router.moved(place[:-2], float(np.exp(place[-2])))
