"""The router: a multi-layer perceptron from a query vector to a weight for each level.

It is trained with torch and applied with numpy.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mog_assets.papers.mix_of_granularity.settings import RouterSettings
from mog_assets.papers.mix_of_granularity.validation import validation_rows
from mog_assets.resources.errors import MogError, TooFewQuestions
from mog_assets.resources.store import Artefact
from mog_assets.resources.tensors import decode, encode, read

if TYPE_CHECKING:
    import pandas as pd

# Logical name of the weights file of a router.
WEIGHTS = "router.safetensors"
# A new router is not used if its loss is greater than the previous one's with a p-value below this.
ALPHA = 0.05

# With fewer questions neither training nor validation is meaningful.
FEWEST = 10
# Outputs that vary less than this between questions count as constant.
_CONSTANT = 1e-6


@dataclass(frozen=True)
class PaperRouter:
    """A verified router.

    Attributes:
        weights: See `Trained`.
        facts: The facts given to `sealed`, and `sha256` of the weights.
    """

    weights: dict[str, np.ndarray]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """Weights and how they were trained.

    Attributes:
        weights: float32 arrays: `layer0.weight` of shape (out, in), `layer0.bias` of shape (out,), `layer1.weight`, …
        curve: Per epoch: `epoch` (from 1), `train_loss`, `validation_loss`.
        best_epoch: The epoch of the weights, with the lowest validation loss.
        held_out: Validation questions, bool array of shape (n,); the others were trained on.
    """

    weights: dict[str, np.ndarray]
    curve: list[dict[str, float]]
    best_epoch: int
    held_out: np.ndarray


def train(
    vectors: np.ndarray,
    labels: np.ndarray,
    groups: Sequence[str],
    settings: RouterSettings,
    seed: int,
    advance: Callable[[int], None] | None = None,
) -> Trained:
    """Train a router: ReLU between layers, sigmoid outputs, Adam, binary cross-entropy summed over levels.

    The same arguments give the same weights; torch's global random state is neither used nor changed.

    Args:
        vectors: Query vectors, float of shape (n, size).
        labels: Soft labels, float of shape (n, levels) in [0, 1].
        groups: The group of each question, such as its document; a group is never divided between training and
            validation.
        settings: Settings of the router.
        seed: Seed of the initial weights and of the order of the questions.
        advance: Called with 1 after each epoch.

    Raises:
        MogError: there are too few questions or groups, or the loss is not finite.
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    if len(vectors) < FEWEST:
        raise TooFewQuestions(
            f"router: expected at least {FEWEST} training questions with a soft label, got {len(vectors)}; "
            "add questions to the train splits of the question set"
        )
    held_out = validation_rows(groups, settings.validation, "router")
    if not np.isfinite(vectors).all():
        raise MogError("router: query vectors have values that are not finite; rematerialize the query vectors")
    inputs = torch.from_numpy(np.array(vectors, np.float32))
    targets = torch.from_numpy(np.array(labels, np.float32))
    fit, validation = (torch.from_numpy(np.flatnonzero(rows)) for rows in (~held_out, held_out))
    generator = torch.Generator().manual_seed(seed)
    layers = _initial([inputs.shape[1], *settings.hidden, targets.shape[1]], generator)
    optimiser = torch.optim.Adam([p for layer in layers for p in layer], lr=settings.learning_rate)

    def loss_of(rows: Any) -> Any:
        hidden = inputs[rows]
        for number, (weight, bias) in enumerate(layers):
            hidden = torch.addmm(bias, torch.relu(hidden) if number else hidden, weight.T)
        return binary_cross_entropy_with_logits(hidden, targets[rows], reduction="none").sum(1).mean()

    curve: list[dict[str, float]] = []
    best, best_epoch, best_arrays = np.inf, 0, {}
    for epoch in range(1, settings.epochs + 1):
        total = torch.zeros(())
        for rows in fit[torch.randperm(len(fit), generator=generator)].split(settings.batch_size):
            loss = loss_of(rows)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(rows)
        with torch.no_grad():
            losses = {"train_loss": float(total) / len(fit), "validation_loss": float(loss_of(validation))}
        _require_finite(losses, epoch, settings)
        curve.append({"epoch": epoch, **losses})
        if losses["validation_loss"] < best:
            best, best_epoch, best_arrays = losses["validation_loss"], epoch, _arrays(layers)
        if advance:
            advance(1)
        if epoch - best_epoch >= settings.patience:
            break
    return Trained(best_arrays, curve, best_epoch, held_out)


def predict(weights: Mapping[str, np.ndarray], vectors: np.ndarray) -> np.ndarray:
    """Return the router's weight of every level for each query.

    Args:
        weights: See `Trained`.
        vectors: Query vectors, shape (n, size).

    Returns:
        float32 array of shape (n, levels) in [0, 1].
    """
    # Importing scipy takes longer than routing a question.
    from scipy.special import expit

    return expit(_logits(weights, vectors))


def chosen_levels(outputs: np.ndarray) -> list[int]:
    """Return number of questions for which each level has the greatest weight, finest level first.

    Args:
        outputs: Result of `predict`, shape (n, levels).
    """
    return np.bincount(outputs.argmax(axis=1), minlength=outputs.shape[1]).tolist()


def choices(outputs: np.ndarray) -> np.ndarray:
    """Return 1 at the level with the greatest weight of each question, 0 elsewhere: float64 as `outputs`."""
    return np.eye(outputs.shape[1])[outputs.argmax(axis=1)]


def losses(weights: Mapping[str, np.ndarray], vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return binary cross-entropy summed over levels, in nats: float64 array of shape (n,), one for each question.

    Args:
        weights: See `Trained`.
        vectors: Query vectors, shape (n, size).
        labels: Soft labels, shape (n, levels).
    """
    logits = _logits(weights, vectors).astype(np.float64)
    return (np.logaddexp(0, logits) - labels * logits).sum(axis=1)


def _logits(weights: Mapping[str, np.ndarray], vectors: np.ndarray) -> np.ndarray:
    hidden = np.asarray(vectors, np.float32)
    for number in range(len(weights) // 2):
        hidden = np.maximum(hidden, 0) if number else hidden
        hidden = hidden @ weights[f"layer{number}.weight"].T + weights[f"layer{number}.bias"]
    return hidden


def unseen(questions: pd.DataFrame, held_out: np.ndarray, earlier: pd.DataFrame) -> np.ndarray:
    """Return questions that neither a new router nor an earlier one was trained on, so that neither has an advantage.

    A group stays in training or validation as long as its document id and the validation share do not change, so most
    questions held out now were held out before. The others are found by group and by text: renaming a document can move
    questions that were trained on to validation.

    Args:
        questions: The questions now; columns group and text.
        held_out: Validation questions of the new router, bool array of shape (n,).
        earlier: The questions of the earlier router; columns group, text and held_out.

    Returns:
        bool array of shape (n,).
    """
    then, now = earlier[~earlier["held_out"].astype(bool)], questions[~held_out]
    seen_before = questions["group"].isin(then["group"]) | questions["text"].isin({*then["text"], *now["text"]})
    return held_out & ~seen_before.to_numpy(bool)


def compare(
    previous: Mapping[str, np.ndarray],
    new: Mapping[str, np.ndarray],
    vectors: np.ndarray,
    labels: np.ndarray,
    groups: Sequence[str],
    seed: int,
) -> dict[str, float]:
    """Compare two routers on the same questions: their mean losses, and the p-value of the difference.

    Questions about one document are not independent: the paired permutation test draws signs per group.

    Args:
        previous: Weights of one router.
        new: Weights of the other.
        vectors: Query vectors that neither was trained on, shape (n, size).
        labels: Their soft labels, shape (n, levels).
        groups: The group of each question, such as its document.
        seed: Seed of the signs.

    Returns:
        questions, groups, previous and new (mean losses, NaN without questions) and p (two-sided).
    """
    # It imports scipy.stats, which takes longer than routing a question.
    from mog_assets.evaluate.significance import by_document, permutation_p

    before, after = (losses(weights, vectors, labels) for weights in (previous, new))
    differences = by_document(after - before, np.asarray(groups, str))
    return {
        "questions": len(vectors),
        "groups": len(differences.sizes),
        "previous": float(before.mean()) if len(vectors) else np.nan,
        "new": float(after.mean()) if len(vectors) else np.nan,
        "p": float(permutation_p(differences, seed=seed)[0]),
    }


def sealed(weights: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> PaperRouter:
    """Return a router whose facts include the checksum of its weights.

    Args:
        weights: See `Trained`.
        facts: As JSON values; at least `encoder` (fingerprint) and `levels` (number).
    """
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}
    return PaperRouter(arrays, {**facts, "sha256": _checksum(arrays)})


def encoded(router: PaperRouter) -> bytes:
    """Return a self-describing safetensors file; equal routers give equal bytes."""
    return encode(router.weights, router.facts)


def open_router(stored: Artefact, encoder: str, levels: int) -> PaperRouter:
    """Load the router from the store, for an encoder and a number of levels. Every use of a router goes through this.

    Args:
        stored: The artefact.
        encoder: Fingerprint of the encoder of the query vectors.
        levels: Number of levels.

    Raises:
        MogError: a byte of the file has changed, it is not a router, or it was trained for another encoder or another
            number of levels.
    """
    router = _checked(stored)
    for name, unit, here in (("encoder", "vectors of encoder", encoder), ("levels", "number of levels", levels)):
        if router.facts[name] != here:
            raise MogError(
                f"router {stored.path(WEIGHTS)}: was trained for {unit} {router.facts[name]}, the configuration has "
                f"{here}: run `mog run`"
            )
    return router


def is_intact(stored: Artefact) -> bool:
    """Return whether the file is intact."""
    try:
        _checked(stored)
    except MogError:
        return False
    return True


def _checked(stored: Artefact) -> PaperRouter:
    """Return the router in the store, without checking encoder and levels."""
    path = stored.path(WEIGHTS)
    try:
        weights, facts = decode(read(stored, WEIGHTS, "router"))
    except ValueError as error:
        raise MogError(f"router {path}: expected a safetensors file ({error}): run `mog run`") from error
    if wrong := _misfit(weights):
        raise MogError(f"router {path}: expected the layers of a router, got {wrong}: run `mog run`")
    if not isinstance(facts, dict) or not {"encoder", "levels", "sha256"} <= set(facts):
        raise MogError(
            f"router {path}: expected its encoder, levels and checksum in its header, got none: run `mog run`"
        )
    levels = len(weights[f"layer{len(weights) // 2 - 1}.bias"])
    if facts["levels"] != levels:
        raise MogError(f"router {path}: expected outputs for {facts['levels']} levels, got {levels}: run `mog run`")
    if (checksum := _checksum(weights)) != facts["sha256"]:
        raise MogError(f"router {path}: expected weights of SHA-256 {facts['sha256']}, got {checksum}: run `mog run`")
    return PaperRouter(weights, facts)


def _checksum(weights: Mapping[str, np.ndarray]) -> str:
    """Return SHA-256 in hexadecimal over names, shapes and values."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(f"{name} {weights[name].shape}\n".encode())
        total.update(weights[name].astype("<f4").tobytes())
    return total.hexdigest()


def weights_fault(outputs: np.ndarray, trained_on: str = "training questions") -> str | None:
    """Return what is wrong with a router that has these outputs; None if nothing is.

    Args:
        outputs: Result of `predict`, shape (n, levels).
        trained_on: Description of the n queries, for the message.
    """
    if bad := int((~np.isfinite(outputs)).any(axis=1).sum()):
        return f"outputs are not finite for {bad} of {len(outputs)} {trained_on}"
    if len(outputs) > 1 and (spread := float(outputs.std(axis=0, dtype=np.float64).max())) < _CONSTANT:
        return (
            f"outputs are the same for all {len(outputs)} {trained_on} "
            f"(greatest standard deviation of a level {spread:.1e}, expected at least {_CONSTANT:.0e})"
        )
    return None


def _initial(sizes: Sequence[int], generator: Any) -> list[tuple[Any, Any]]:
    """Return weights and biases initialised like torch's Linear, but from our own generator."""
    import torch

    layers = []
    for into, out in pairwise(sizes):
        bound = into**-0.5
        weight = torch.empty(out, into).uniform_(-bound, bound, generator=generator)
        bias = torch.empty(out).uniform_(-bound, bound, generator=generator)
        layers.append((weight.requires_grad_(), bias.requires_grad_()))
    return layers


def _arrays(layers: Sequence[tuple[Any, Any]]) -> dict[str, np.ndarray]:
    names = ("weight", "bias")
    return {
        f"layer{number}.{name}": tensor.detach().numpy().copy()
        for number, layer in enumerate(layers)
        for name, tensor in zip(names, layer, strict=True)
    }


def _require_finite(losses: Mapping[str, float], epoch: int, settings: RouterSettings) -> None:
    for name, loss in losses.items():
        if not np.isfinite(loss):
            raise MogError(
                f"router: {name} must be finite, got {loss} in epoch {epoch}; lower router.learning_rate "
                f"({settings.learning_rate:g})"
            )


def _misfit(weights: Mapping[str, np.ndarray]) -> str | None:
    """Return why these arrays are not a router; None if they are."""
    depth = len(weights) // 2
    names = {f"layer{n}.{name}" for n in range(depth) for name in ("weight", "bias")}
    if not weights or set(weights) != names:
        return f"arrays named {', '.join(sorted(weights)) or 'nothing'}"
    width = None
    for number in range(depth):
        weight, bias = weights[f"layer{number}.weight"], weights[f"layer{number}.bias"]
        fits = weight.ndim == 2 and bias.shape == weight.shape[:1] and width in (None, weight.shape[1])
        if not fits or weight.dtype != np.float32 or bias.dtype != np.float32:
            return f"layer{number} of shapes {weight.shape} and {bias.shape}, {weight.dtype} and {bias.dtype}"
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            return f"values in layer{number} that are not finite"
        width = weight.shape[0]
    return None
