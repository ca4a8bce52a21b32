"""The router: a multi-layer perceptron from a query vector to a weight for each level.

Trained with torch; numpy is enough to use it.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from scipy.special import expit

from mog_assets.config import RouterSettings
from mog_assets.errors import MogError

# With fewer questions neither part of the data says anything.
_FEWEST = 10
# Outputs that vary less between questions do not depend on the question.
_CONSTANT = 1e-6


@dataclass(frozen=True)
class Trained:
    """A router and how it was trained.

    Attributes:
        weights: float32 arrays: `layer0.weight` of shape (out, in), `layer0.bias` of shape (out,), `layer1.weight`, …
        curve: Per epoch: `epoch` (from 1), `train_loss`, `validation_loss`.
        best_epoch: The epoch of the weights: that of the least validation loss.
        n_train, n_validation: Questions in either part.
    """

    weights: dict[str, np.ndarray]
    curve: list[dict[str, float]]
    best_epoch: int
    n_train: int
    n_validation: int


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
        groups: For each question what it shares with others, such as its document; a group is never divided between
            training and validation.
        settings: Of the router.
        seed: Of the first weights and of the order of the questions.
        advance: Called with 1 when an epoch is over.

    Raises:
        MogError: there are too few questions or groups, or the loss is not finite.
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    if len(vectors) < _FEWEST:
        raise MogError(
            f"router: expected at least {_FEWEST} training questions with a soft label, got {len(vectors)}; "
            "add questions to the train splits of the question set"
        )
    held_out = _validation_rows(groups, settings.validation)
    if not np.isfinite(vectors).all():
        raise MogError("router: query vectors hold values that are not finite; rematerialize the query vectors")
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
    best, best_epoch, kept = np.inf, 0, {}
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
            best, best_epoch, kept = losses["validation_loss"], epoch, _arrays(layers)
        if advance:
            advance(1)
        if epoch - best_epoch >= settings.patience:
            break
    return Trained(kept, curve, best_epoch, len(fit), len(validation))


def predict(weights: Mapping[str, np.ndarray], vectors: np.ndarray) -> np.ndarray:
    """The router's weight of every level for each query.

    Args:
        weights: See `Trained`.
        vectors: Query vectors, shape (n, size).

    Returns:
        float32 array of shape (n, levels) in [0, 1].
    """
    hidden = np.asarray(vectors, np.float32)
    for number in range(len(weights) // 2):
        hidden = np.maximum(hidden, 0) if number else hidden
        hidden = hidden @ weights[f"layer{number}.weight"].T + weights[f"layer{number}.bias"]
    return expit(hidden)


def save(weights: Mapping[str, np.ndarray], path: Path) -> None:
    """Write a router as a safetensors file."""
    save_file({name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}, path)


def load(path: Path) -> dict[str, np.ndarray]:
    """Read a router.

    Raises:
        MogError: the file is missing, or is not a router.
    """
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise MogError(f"router {path}: expected a safetensors file ({error}); rematerialize the router") from error
    if wrong := _misfit(weights):
        raise MogError(f"router {path}: expected the layers of a router, got {wrong}; rematerialize the router")
    return weights


def weights_fault(outputs: np.ndarray) -> str | None:
    """What is wrong with a router that says this of its training questions; None if nothing is.

    Args:
        outputs: From `predict`, shape (n, levels).
    """
    if bad := int((~np.isfinite(outputs)).any(axis=1).sum()):
        return f"outputs are not finite for {bad} of {len(outputs)} training questions"
    if len(outputs) > 1 and (spread := float(outputs.std(axis=0, dtype=np.float64).max())) < _CONSTANT:
        return (
            f"outputs are the same for all {len(outputs)} training questions "
            f"(greatest standard deviation of a level {spread:.1e}, expected at least {_CONSTANT:.0e})"
        )
    return None


def _validation_rows(groups: Sequence[str], share: float) -> np.ndarray:
    """Rows whose group's hash lies in the lowest `share` (bool array): a group keeps its part when others come."""
    place = {group: int(hashlib.sha256(group.encode()).hexdigest()[:16], 16) / 16**16 for group in set(groups)}
    chosen = {group for group, p in place.items() if p < share}
    if not 0 < len(chosen) < len(place):
        if len(place) < 2:
            raise MogError(
                "router: expected training questions on at least 2 documents, to validate on questions that were not "
                f"trained on, got {len(place)}; add questions to the train splits of the question set"
            )
        chosen = set(sorted(place, key=lambda g: (place[g], g))[-max(1, len(place) // 10) :])
    return np.array([group in chosen for group in groups])


def _initial(sizes: Sequence[int], generator: Any) -> list[tuple[Any, Any]]:
    """Weights and biases as torch's Linear starts them, but from a generator of our own."""
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
    """How these arrays differ from those of a router; None if they do not."""
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
        width = weight.shape[0]
    return None
