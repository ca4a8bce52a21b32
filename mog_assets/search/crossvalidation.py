"""How good a trained ranking is on documents it was not trained on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np

from mog_assets.search.blend import Reranked
from mog_assets.search.candidates import Inputs, ordered
from mog_assets.search.rankings import fused
from mog_assets.search.training import FOLDS, Examples

# Of each fold but one, and of all questions.
TRAININGS = FOLDS + 1


class Model(Protocol):
    """A trained ranking."""

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Score of every candidate."""


M = TypeVar("M", bound=Model)
Train = Callable[[np.ndarray], M]
"""Trains a model on some questions, bool of shape (questions,)."""


def cross_validated(examples: Examples, train: Train[M], threads: int = 1) -> tuple[np.ndarray, M]:
    """Train a ranking on all questions, and on all folds but one for every fold.

    Args:
        examples: The training questions.
        train: Trains a model.
        threads: How many trainings run side by side; the results are the same.

    Returns:
        ER of every question by the model that was trained on documents of other folds, float64 of shape (questions,);
        and the model that was trained on all, which is trained last.
    """
    with ThreadPoolExecutor(threads, "training") as pool:
        tested = [pool.submit(_tested, examples, train, fold, None) for fold in range(FOLDS)]
        model = pool.submit(train, np.ones(len(examples.documents), bool))
        return np.sum([part.result() for part in tested], axis=0), model.result()


def recalls_of_fewer(examples: Examples, train: Train[M], questions: int | None, threads: int = 1) -> np.ndarray:
    """ER of every question as by `cross_validated`, each model trained on at most so many questions; None for all."""
    with ThreadPoolExecutor(threads, "training") as pool:
        return np.sum([*pool.map(lambda fold: _tested(examples, train, fold, questions), range(FOLDS))], axis=0)


def fused_recalls(examples: Examples) -> np.ndarray:
    """ER of every question by `fused`, float64 of shape (questions,)."""
    return examples.gold.recall(ordered(examples.candidates, fused(examples.candidates, examples.experts)))


def reranked_recalls(examples: Examples) -> np.ndarray:
    """ER of every question by `reranked`, float64 of shape (questions,)."""
    scores = Reranked().scores(examples.candidates, examples.experts)
    return examples.gold.recall(ordered(examples.candidates, scores))


def _tested(examples: Examples, train: Train[M], fold: int, most: int | None) -> np.ndarray:
    """ER of the questions of a fold by a model trained on the others, float64 of shape (questions,); 0 elsewhere."""
    recalls, tested = np.zeros(len(examples.documents)), examples.folds == fold
    rows, order = ~tested, examples.drawn
    if most is not None:
        rows[order[rows[order]][most:]] = False
    # With nothing to learn from, the ranking finds nothing.
    if tested.any() and examples.taught.covered[rows[examples.candidates.question]].any():
        model, part = train(rows), examples.of(tested)
        recalls[tested] = part.gold.recall(ordered(part.candidates, model.scores(part.inputs)))
    return recalls
