"""Trained rankings in the store: written so that equal models give equal bytes, and checked before they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact
from mog_assets.resources.tensors import decode, encode, read
from mog_assets.search import features, mix
from mog_assets.search.answer_places import Places
from mog_assets.search.candidates import Inputs
from mog_assets.search.exact import boosted
from mog_assets.search.features import Components
from mog_assets.search.router import Routed, Router
from mog_assets.search.rule import of_texts

ARRAYS = "arrays.safetensors"
TREES = "trees.txt"


class Weighed(Protocol):
    """A ranking whose scores are sums of what the experts give."""

    def parts(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Tell what every expert gives to the scores of some candidates, shape (rows, experts)."""


@dataclass(frozen=True)
class Tuned(Routed):
    """The fitted weights of `tuned`."""

    def files(self, facts: Mapping[str, Any]) -> dict[str, bytes]:
        """Return what `open_tuned` reads, by the name of the file; `facts` are its `facts`."""
        arrays = {**self.router.arrays, "names": np.array([self.router.names], np.float32)}
        return {ARRAYS: encode(arrays, facts)}


@dataclass(frozen=True)
class Mix:
    """The trees of `mix`, and what their features are made with: components of question vectors, places of answers."""

    booster: Any
    components: Components
    places: Places

    def features(self, inputs: Inputs) -> np.ndarray:
        """Return the features of every candidate, float32 of shape (n, features), in the order of `features.names`."""
        columns = inputs.columns
        if columns is None:
            columns = features.of_candidates(inputs.candidates, inputs.finest, inputs.words)
        of_question = self.components.apply(inputs.vectors)[inputs.candidates.question]
        return features.table(columns, of_question, self.places.features(inputs.candidates, inputs.vectors))

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Score of every candidate, known items first."""
        return boosted(inputs.candidates, mix.scores(self.booster, self.features(inputs)))

    def files(self, facts: Mapping[str, Any]) -> dict[str, bytes]:
        """Return what `open_mix` reads, by the name of the file; `facts` are its `facts`."""
        arrays = {"mean": self.components.mean, "axes": np.ascontiguousarray(self.components.axes)}
        arrays |= {f"places {name}": array for name, array in self.places.arrays.items()}
        return {ARRAYS: encode(arrays, facts), TREES: self.booster.model_to_string().encode()}


@dataclass(frozen=True)
class Opening:
    """Conditions that a model must have been trained for, and is opened with.

    Attributes:
        encoder: Fingerprint of the encoder.
        experts: Names of the experts, in the order of their scores.
        finest: Those that score pieces themselves.
        corpora: Names of all corpora.
    """

    encoder: str
    experts: Sequence[str]
    finest: Sequence[str]
    corpora: Sequence[str]


def facts(kind: str, opening: Opening) -> dict[str, Any]:
    """Return what a model must have been trained for to be used; `mix` alone knows corpora, by their position."""
    facts = {"model": kind, "encoder": opening.encoder, "experts": list(opening.experts), "features": features.VERSION}
    return {**facts, "corpora": list(opening.corpora)} if kind == "mix" else facts


def open_tuned(stored: Artefact, opening: Opening) -> Tuned:
    """Load the weights of `tuned`.

    Raises:
        MogError: a byte of it has changed, or it was trained for another encoder, other experts or other features.
    """
    arrays = stored_arrays(stored, facts("tuned", opening), "tuned")
    levels = int(of_texts(opening.experts).sum()) // 2
    shapes = {name: array.shape for name, array in Router.shipped().at_levels(levels).arrays.items()}
    if {name: array.shape for name, array in arrays.items()} != {**shapes, "names": (1,)} or not all(
        np.isfinite(array).all() for array in arrays.values()
    ):
        raise MogError(
            f"tuned {stored.path(ARRAYS)}: expected a number for each of {', '.join([*shapes, 'names'])}: run `mog run`"
        )
    names = float(arrays.pop("names")[0])
    return Tuned(Router.of(arrays, names), opening.experts)


def open_mix(stored: Artefact, opening: Opening) -> Mix:
    """Load the trees of `mix`.

    Raises:
        MogError: as `open_tuned`, or it is not a model of LightGBM.
    """
    arrays = stored_arrays(stored, facts("mix", opening), "mix")
    library, text = mix.lightgbm(), read(stored, TREES, "mix").decode()
    try:
        booster = library.Booster(model_str=text)
    except library.basic.LightGBMError as error:
        raise MogError(f"mix {stored.path(TREES)}: expected a model of LightGBM ({error}): run `mog run`") from error
    names = [name.replace(" ", "_") for name in features.names(opening.experts, opening.finest)]
    if booster.feature_name() != names:
        raise MogError(f"mix {stored.path(TREES)}: was trained on other features than these: run `mog run`")
    places = {name.removeprefix("places "): array for name, array in arrays.items() if name.startswith("places ")}
    return Mix(booster, Components(arrays["mean"], arrays["axes"]), Places.from_arrays(places))


def stored_arrays(stored: Artefact, wanted: Mapping[str, Any], what: str) -> dict[str, np.ndarray]:
    """Load the arrays of a model.

    Args:
        stored: The artefact.
        wanted: What it must have been trained for: see `facts`.
        what: What the model is called, for messages.

    Raises:
        MogError: a byte of it has changed, or it was trained for something else.
    """
    path = stored.path(ARRAYS)
    try:
        arrays, facts = decode(read(stored, ARRAYS, what))
    except ValueError as error:
        raise MogError(f"{what} {path}: expected a safetensors file ({error}): run `mog run`") from error
    for name, value in wanted.items():
        if not isinstance(facts, dict) or facts.get(name) != value:
            got = facts.get(name) if isinstance(facts, dict) else None
            raise MogError(f"{what} {path}: was trained for {name} {got}, expected {value}: run `mog run`")
    return arrays
