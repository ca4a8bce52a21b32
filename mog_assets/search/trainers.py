"""How each ranking is trained on parts of the same questions: what does not depend on the part is computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mog_assets.build.plots import new_figure, png
from mog_assets.config import Settings
from mog_assets.questions.sets import LEVELS
from mog_assets.resources.arrays import places as positions
from mog_assets.resources.processes import cores
from mog_assets.search import features, mix, tuned
from mog_assets.search.answer_places import NAMES, Places
from mog_assets.search.candidates import ordered
from mog_assets.search.features import Components
from mog_assets.search.models import Mix, Tuned
from mog_assets.search.rankings import fused
from mog_assets.search.training import Examples, Train

# Features shown, the most used first.
_MOST = 20
_BLUE = "#0072B2"


def weights_plot(experts: Sequence[str], weighed: np.ndarray) -> bytes:
    """Plot of the weights that questions give to experts.

    Args:
        experts: Their names.
        weighed: float array of shape (questions, experts).
    """
    figure = new_figure(5, 1 + 0.28 * len(experts))
    axes = figure.subplots()
    axes.boxplot(weighed[:, ::-1], orientation="horizontal", tick_labels=list(experts)[::-1], showfliers=False)
    axes.set(xlabel="weight", title="Weights of the experts over questions")
    return png(figure)


def _importance_plot(names: Sequence[str], gains: np.ndarray) -> bytes:
    """Plot of how much each feature reduced the loss of the trees.

    Args:
        names: Of the features.
        gains: float array of shape (features,).
    """
    order = np.argsort(-gains)[:_MOST][::-1]
    figure = new_figure(5.5, 1 + 0.24 * len(order))
    axes = figure.subplots()
    axes.barh([names[i] for i in order], gains[order] / max(float(gains.sum()), 1e-9), color=_BLUE)
    axes.set(xlabel="share of the gain", title="What the trees use")
    return png(figure)


Advance = Callable[[int], object]


def _silent(done: int) -> None:
    """Do nothing: no progress is shown."""


@dataclass(frozen=True)
class Trainer:
    """Training of rankings of a kind.

    Attributes:
        prepared: Given the training questions, the settings and what is called with 1 after each step: the questions
            with what was computed once for all trainings, and what trains a model on some of them.
        steps: Most steps of a training.
        unit: What the steps are, for people.
        pictures: Given a model and the questions it was trained on: plots by title.
        one_core: Whether a training takes one core, so that several run side by side.
    """

    prepared: Callable[[Examples, Settings, Advance], tuple[Examples, Train[Any]]]
    steps: int
    unit: str
    pictures: Callable[[Any, Examples], Mapping[str, bytes]]
    one_core: bool = False

    @property
    def threads(self) -> int:
        """Return how many trainings run side by side."""
        return cores() if self.one_core else 1


def prepared_tuned(examples: Examples, advance: Advance = _silent) -> tuple[Examples, Train[Tuned]]:
    """See `Trainer.prepared`; a training is a step."""

    def train(rows: np.ndarray) -> Tuned:
        taught = np.asarray(rows, bool).copy()
        taught[examples.sampling_order[taught[examples.sampling_order]][tuned.QUESTIONS :]] = False
        part = examples.of(taught)
        router = tuned.train(part.candidates, part.taught.covered, part.experts, part.trainable)
        advance(1)
        return Tuned(router, examples.experts)

    return examples, train


def prepared_mix(examples: Examples, seed: int, advance: Advance = _silent) -> tuple[Examples, Train[Mix]]:
    """See `Trainer.prepared`; a step is a tree.

    The bins of features and the components of question vectors are those of all questions, whichever train: no label
    enters them. Where answers stood is learned from the questions that train alone.
    """
    columns = features.of_candidates(examples.candidates, examples.finest, examples.words)
    components = Components.of(examples.vectors)
    titles = features.names(examples.experts, [examples.experts[i] for i in examples.finest])
    table = features.table(columns, components.apply(examples.vectors)[examples.candidates.question])
    binned = mix.binned(table, titles[: -len(NAMES)], seed)
    del table
    prepared, untrained = replace(examples, columns=columns), fused(examples.candidates, examples.experts)

    def train(rows: np.ndarray) -> Mix:
        part, at = prepared.of(rows), np.flatnonzero(np.asarray(rows, bool)[prepared.candidates.question])
        # Only places that somebody named say where in documents answers stand.
        named = part.taught.only(part.levels == LEVELS.index("spans"))
        places = Places.of(named, part.vectors, part.documents)
        answered = places.features(part.candidates, part.vectors, themselves=True)
        question, grades = part.candidates.question, part.taught.grades

        def trees(scores: np.ndarray, best: int, first: bool) -> Any:
            used = hard(part, scores, best, mix.OTHERS, seed)
            sizes = np.bincount(question[used], minlength=len(part.words))
            arguments = (binned, at[used], answered[used], NAMES, grades[used], sizes)
            return mix.train(*arguments, seed, lambda: advance(1), first)

        first = trees(untrained[at], mix.BEST_BY_FUSED, True)
        scores = mix.scores(first, features.table(columns[at], components.apply(part.vectors)[question], answered))
        return Mix(trees(scores, mix.BEST_BY_FIRST, False), components, places)

    return prepared, train


def trained_mix(examples: Examples, seed: int) -> Mix:
    """Return `mix` trained on all of some questions."""
    prepared, train = prepared_mix(examples, seed)
    return train(np.ones(len(prepared.documents), bool))


def hard(examples: Examples, scores: np.ndarray, best: int, others: int, seed: int) -> np.ndarray:
    """Return candidates that are worth training on, bool of shape (n,): none that may be relevant or not.

    Args:
        examples: Questions with their candidates.
        scores: Of every candidate, shape (n,).
        best: How many candidates of each question are taken that have the greatest scores.
        others: How many of those that are neither among them nor hold evidence are drawn at random, on average.
        seed: Of the draw.
    """
    usable = examples.trainable
    question = examples.candidates.question
    order = ordered(examples.candidates, np.where(usable, scores, -np.inf))
    nearest = np.zeros(len(order), bool)
    nearest[order] = positions(question[order]) < best
    certain = usable & ((examples.taught.grades > 0) | nearest)
    rest = usable & ~certain
    share = others / np.maximum(np.bincount(question[rest], minlength=len(examples.words)), 1)
    return certain | (rest & (np.random.default_rng(seed).random(len(order)) < share[question]))


def _of_tuned(model: Tuned, examples: Examples) -> dict[str, bytes]:
    weighed = model.router.weights(examples.candidates, model.experts)
    return {"weights of the experts": weights_plot(examples.experts, weighed)}


def _of_mix(model: Mix, examples: Examples) -> dict[str, bytes]:
    titles = features.names(examples.experts, [examples.experts[i] for i in examples.finest])
    return {"what the trees use": _importance_plot(titles, model.booster.feature_importance("gain"))}


MIX = Trainer(
    lambda examples, settings, advance: prepared_mix(examples, settings.seed, advance),
    mix.FIRST_TREES + mix.TREES,
    "trees trained",
    _of_mix,
    one_core=True,
)
TUNED = Trainer(
    lambda examples, settings, advance: prepared_tuned(examples, advance), 1, "weights fitted", _of_tuned, one_core=True
)
