"""The ranking `mog`: its model in the store, its training, and what is shown of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.config import Settings
from mog_assets.papers.mix_of_granularity import mog
from mog_assets.papers.mix_of_granularity.validation import validation_rows
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact
from mog_assets.resources.tensors import encode
from mog_assets.search.candidates import Inputs
from mog_assets.search.exact import boosted
from mog_assets.search.methods import METHODS
from mog_assets.search.models import ARRAYS, Opening, facts, stored_arrays
from mog_assets.search.rankings import Ranking, ranked_by
from mog_assets.search.trainers import Advance, Trainer, weights_plot
from mog_assets.search.training import Examples, Train


@dataclass(frozen=True)
class Router:
    """The trained router of `mog`: see `mog.train`."""

    arrays: Mapping[str, np.ndarray]

    def weights(self, inputs: Inputs) -> np.ndarray:
        """Return the weight of every expert for each question."""
        return mog.weights(self.arrays, inputs.vectors)

    def parts(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Return what every expert gives to the scores of some candidates, shape (rows, experts)."""
        return inputs.candidates.relative[rows] * self.weights(inputs)[inputs.candidates.question[rows]]

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Score of every candidate, known items first."""
        return boosted(inputs.candidates, mog.scores(inputs.candidates, self.weights(inputs)))

    def files(self, facts: Mapping[str, Any]) -> dict[str, bytes]:
        """Return what `open_router` reads, by the name of the file; `facts` are its `facts`."""
        arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in self.arrays.items()}
        return {ARRAYS: encode(arrays, facts)}


def open_router(stored: Artefact, opening: Opening) -> Router:
    """Load the router of `mog`.

    Raises:
        MogError: a byte of it has changed, or it was trained for another encoder, other experts or other features.
    """
    arrays = stored_arrays(stored, facts("mog", opening), "router")
    shapes = {name: array.shape for name, array in arrays.items()}
    hidden, outputs = shapes.get("layer0.bias", (0,))[0], len(opening.experts)
    wanted = {"layer0.bias": (hidden,), "layer1.weight": (outputs, hidden), "layer1.bias": (outputs,)}
    finite = all(np.isfinite(array).all() for array in arrays.values())
    if not finite or {**shapes, **wanted} != shapes or len(shapes.get("layer0.weight", ())) != 2:
        raise MogError(f"router {stored.path(ARRAYS)}: expected the layers of a router, got {shapes}: run `mog run`")
    return Router(arrays)


@dataclass(frozen=True)
class TrainedRouter(Router):
    """A router that was trained now.

    Attributes:
        curve: A row per epoch, see `mog.train`.
    """

    curve: Sequence[Mapping[str, float]]


def prepared_router(examples: Examples, settings: Settings, advance: Advance) -> tuple[Examples, Train[TrainedRouter]]:
    """See `Trainer.prepared`; a step is an epoch."""
    stopping = validation_rows(examples.documents, settings.ranking.validation, "ranking")

    def train(rows: np.ndarray) -> TrainedRouter:
        part = examples.of(rows)
        # The documents that decide when to stop are the same with and without a fold.
        arrays, curve = mog.train(
            part.candidates,
            part.taught.covered,
            part.vectors,
            stopping[rows],
            settings.seed,
            advance,
            part.trainable,
        )
        return TrainedRouter(arrays, curve)

    return examples, train


def _pictures(model: TrainedRouter, examples: Examples) -> dict[str, bytes]:
    weighed = mog.weights(model.arrays, examples.vectors)
    return {"weights of the experts": weights_plot(examples.experts, weighed)}


# It trains in torch, which uses the cores itself.
MOG = Trainer(prepared_router, mog.EPOCHS, "epochs trained (at most)", _pictures)

METHODS.register(
    "mog",
    ranked_by(
        Ranking(
            asset="router",
            opened=open_router,
            trainer=MOG,
            library="pytorch",
            description="Perceptron from question vector to a weight for every expert, cross-validated.",
            complexity=2,
            reads=True,
        ),
        "all retrievers and levels, weighted by the router",
        ("#F0E442", "X"),
    ),
)
