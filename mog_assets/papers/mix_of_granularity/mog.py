"""`mog`: the router of Mix-of-Granularity, trained end to end on the order of candidates.

A perceptron turns a question's vector into a weight for every expert, and a candidate's score is the weighted sum of
what the experts give it. The loss is the cross-entropy between the softmax over a question's candidates and their
shares of the evidence, so the weights learn to rank and not, as in the paper, to imitate which level's best chunk looks
most like the evidence.

References: Zhong et al. 2024 (Mix-of-Granularity), section 3.2, for the perceptron.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mog_assets.papers.mix_of_granularity.layers import arrays_of, initial
from mog_assets.resources.errors import TooFewQuestions
from mog_assets.search.candidates import Candidates

HIDDEN = 64
DROPOUT = 0.2
LEARNING_RATE = 3e-3
EPOCHS = 60
PATIENCE = 12
BATCH = 64
# A smaller fall of the loss is none.
_LEAST = 1e-4


def weights(arrays: Mapping[str, np.ndarray], vectors: np.ndarray) -> np.ndarray:
    """Return the weight of every expert for each question, float32 of shape (questions, experts), above 0.

    Args:
        arrays: See `train`.
        vectors: Of the questions, shape (questions, size).
    """
    hidden = np.maximum(vectors @ arrays["layer0.weight"].T + arrays["layer0.bias"], 0)
    return np.logaddexp(0, hidden @ arrays["layer1.weight"].T + arrays["layer1.bias"]).astype(np.float32)


def scores(candidates: Candidates, weighed: np.ndarray) -> np.ndarray:
    """Score of every candidate, float32 of shape (n,), given the weights of experts for each question."""
    return np.einsum("ij,ij->i", candidates.relative, weighed[candidates.question])


def train(
    candidates: Candidates,
    covered: np.ndarray,
    vectors: np.ndarray,
    held_out: np.ndarray,
    seed: int,
    advance: Callable[[int], object] = lambda done: None,
    usable: np.ndarray | None = None,
) -> tuple[dict[str, np.ndarray], list[dict[str, float]]]:
    """Train the router.

    Args:
        candidates: Candidates of the training questions.
        covered: Characters of evidence in each, shape (n,).
        vectors: Of the questions, shape (questions, size).
        held_out: Questions that decide when to stop, bool of shape (questions,).
        seed: Of initial weights, order and dropout.
        advance: Called with 1 after each epoch.
        usable: Candidates that say something, bool of shape (n,), all with evidence among them; None for all.

    Raises:
        TooFewQuestions: no candidate has any evidence.

    Returns:
        `layer0.weight` (hidden, size), `layer0.bias`, `layer1.weight` (experts, hidden) and `layer1.bias`; and a row
        per epoch: `epoch`, `train_loss` and `validation_loss`, in nats.
    """
    import torch
    from torch.nn.functional import softplus

    generator = torch.Generator().manual_seed(seed)
    layers = initial([vectors.shape[1], HIDDEN, candidates.scores.shape[1]], generator)
    scale = torch.zeros(1, requires_grad=True)
    answered = np.bincount(candidates.question, covered, len(held_out)) > 0
    if not answered.any():
        raise TooFewQuestions(
            "question_sets: expected training questions whose evidence can be found, got none: check that their "
            "documents are in the corpora of the question set"
        )
    parts = [answered & ~held_out, answered & held_out]
    # With too few questions for two parts, all of them decide when to stop.
    fit, validation = (
        torch.from_numpy(np.flatnonzero(part if all(p.any() for p in parts) else answered)) for part in parts
    )
    optimiser = torch.optim.AdamW([scale, *(p for layer in layers for p in layer)], lr=LEARNING_RATE)
    steps = EPOCHS * -(-len(fit) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)
    inputs = torch.from_numpy(np.asarray(vectors, np.float32))

    given, target = torch.from_numpy(candidates.relative), torch.from_numpy(covered.astype(np.float32))
    bounds = torch.from_numpy(candidates.offsets)
    says = torch.from_numpy(np.ones(len(covered), bool) if usable is None else usable)

    def loss_of(questions: Any, training: bool) -> Any:
        first, last = bounds[questions, None], bounds[questions + 1, None]
        rows = first + torch.arange(int((last - first).max()))
        filled = rows < last
        rows = torch.where(filled, rows, first)
        filled = filled & says[rows]
        (into, into_bias), (out, out_bias) = layers
        hidden = torch.relu(inputs[questions] @ into.T + into_bias)
        if training:
            hidden = hidden * (torch.rand(hidden.shape, generator=generator) >= DROPOUT) / (1 - DROPOUT)
        weighed = softplus(hidden @ out.T + out_bias)
        # Scores are at most 1, and a softmax over hundreds of them needs a steeper scale.
        mixed = torch.einsum("nte,ne->nt", given[rows], weighed) * torch.exp(scale + 2)
        chance = torch.log_softmax(mixed.masked_fill(~filled, -torch.inf), dim=1).masked_fill(~filled, 0)
        share = target[rows].masked_fill(~filled, 0)
        return -(share / share.sum(dim=1, keepdim=True) * chance).sum(1).mean()

    curve: list[dict[str, float]] = []
    best, best_epoch, best_arrays = np.inf, 0, arrays_of(layers)
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        for questions in fit[torch.randperm(len(fit), generator=generator)].split(BATCH):
            loss = loss_of(questions, training=True)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(questions)
        with torch.no_grad():
            checked = sum(float(loss_of(part, False)) * len(part) for part in validation.split(BATCH)) / len(validation)
        curve.append({"epoch": epoch, "train_loss": total / len(fit), "validation_loss": checked})
        if checked < best - _LEAST:
            best, best_epoch, best_arrays = checked, epoch, arrays_of(layers)
        advance(1)
        if epoch - best_epoch >= PATIENCE:
            break
    return best_arrays, curve
