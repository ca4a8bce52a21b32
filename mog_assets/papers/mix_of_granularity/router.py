"""The router: a multi-layer perceptron from a query vector to a weight for each level.

It is trained with torch and applied with numpy.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mog_assets.papers.mix_of_granularity.layers import arrays_of, initial
from mog_assets.papers.mix_of_granularity.settings import RouterSettings
from mog_assets.papers.mix_of_granularity.validation import validation_rows
from mog_assets.resources.errors import MogError, TooFewQuestions
from mog_assets.resources.store import Artefact
from mog_assets.search.models import stored_arrays

if TYPE_CHECKING:
    pass

# With fewer questions neither training nor validation is meaningful.
FEWEST = 10
# Outputs that vary less than this between questions count as constant.
_CONSTANT = 1e-6


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
    layers = initial([inputs.shape[1], *settings.hidden, targets.shape[1]], generator)
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
            best, best_epoch, best_arrays = losses["validation_loss"], epoch, arrays_of(layers)
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


def choices(outputs: np.ndarray) -> np.ndarray:
    """Return 1 at the level with the greatest weight of each question, 0 elsewhere: float64 as `outputs`."""
    return np.eye(outputs.shape[1])[outputs.argmax(axis=1)]


def _logits(weights: Mapping[str, np.ndarray], vectors: np.ndarray) -> np.ndarray:
    hidden = np.asarray(vectors, np.float32)
    for number in range(len(weights) // 2):
        hidden = np.maximum(hidden, 0) if number else hidden
        hidden = hidden @ weights[f"layer{number}.weight"].T + weights[f"layer{number}.bias"]
    return hidden


def open_router(stored: Artefact, encoder: str, levels: int) -> dict[str, np.ndarray]:
    """Load the weights of a router, for an encoder and a number of levels.

    Args:
        stored: The artefact.
        encoder: Fingerprint of the encoder of the query vectors.
        levels: Number of levels.

    Raises:
        MogError: a byte of the file has changed, or it was trained for another encoder or another number of levels.
    """
    return stored_arrays(stored, {"encoder": encoder, "levels": levels}, "router")


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


def _require_finite(losses: Mapping[str, float], epoch: int, settings: RouterSettings) -> None:
    for name, loss in losses.items():
        if not np.isfinite(loss):
            raise MogError(
                f"router: {name} must be finite, got {loss} in epoch {epoch}; lower router.learning_rate "
                f"({settings.learning_rate:g})"
            )
