"""Training of the learned chunker: questions with known answer spans show which chunks would have been best.

References: "Optimizing Retrieval Augmented Generation with Learned Chunking" (Markowitz and Galiya), "Train the Chunker
End-to-End on Question Answering" (Markowitz and Galiya).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.papers.learned_chunking.articles import Article
from mog_assets.papers.learned_chunking.learned import (
    Scorer,
    Shape,
    Windows,
    costs,
    device,
    forward,
    joined,
    network,
    penalty_for,
    scores,
    set_weights,
    weights_of,
)
from mog_assets.papers.learned_chunking.settings import ChunkerTraining
from mog_assets.papers.learned_chunking.tokens_to_answer import chunk_costs, tokens_to_answer
from mog_assets.resources.errors import MogError
from mog_assets.text.cuts import least

# Cap on the tokens to answer of a question, for curves and early stopping: the tail would dominate every mean.
LOST = 2000


@dataclass(frozen=True)
class TrainedScorer:
    """A scorer and its training history.

    Attributes:
        scorer: From the epoch with the fewest tokens to answer on held-out articles.
        curve: Per epoch: `epoch` (from 1), `train_loss`, `train_tokens`, `validation_tokens` (tokens to answer, at most
            `LOST`, with chunks of the mean length).
    """

    scorer: Scorer
    curve: list[dict[str, float]]


def train(
    articles: Sequence[Article],
    held_out: np.ndarray,
    finest_chars: int,
    settings: ChunkerTraining,
    seed: int,
    advance: Callable[[int], None] | None = None,
) -> TrainedScorer:
    """Train a scorer, on a CUDA device if there is one.

    The same arguments give the same weights; on CUDA up to rounding.

    Args:
        articles: Training documents.
        held_out: Which of them are used for early stopping, bool array of shape (articles,).
        finest_chars: Mean length of chunks, in characters.
        settings: Of the training.
        seed: Of weights, order and dropout.
        advance: Called with 1 after each epoch.

    Raises:
        MogError: the loss is not finite, or a batch does not fit into memory.
    """
    import torch

    where = device()
    fit = [a for a, out in zip(articles, held_out, strict=True) if not out]
    rest = [a for a, out in zip(articles, held_out, strict=True) if out]
    with torch.random.fork_rng(devices=[] if where == "cpu" else None):
        torch.manual_seed(seed)
        shape = Shape(articles[0].vectors.shape[1], settings.width, settings.layers)
        model = network(shape).to(where)
        optimiser = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.05)
        curve: list[dict[str, float]] = []
        best: dict[str, np.ndarray] = {}
        data = _Data.of(fit, finest_chars, settings)
        while not _over(curve, settings):
            epoch = len(curve) + 1
            torch.manual_seed(seed * 100_003 + epoch)
            try:
                loss = data.epoch(model, optimiser, np.random.default_rng([seed, epoch]))
            except torch.OutOfMemoryError as error:
                raise MogError(
                    f"chunker.training.batch_size: expected a number of windows that fit into the memory of the device "
                    f"({where}), got {settings.batch_size}: lower it ({' '.join(str(error).split())[:200]})"
                ) from error
            if not np.isfinite(loss):
                raise MogError(
                    f"chunker: train_loss must be finite, got {loss} in epoch {epoch}; lower "
                    f"chunker.training.learning_rate ({settings.learning_rate})"
                )
            row = {"epoch": epoch, "train_loss": loss}
            for name, part in (("train", fit), ("validation", rest)):
                tokens_needed = np.concatenate(tokens_to_answer(part, _cuts(model, part, finest_chars)[0]))
                row[f"{name}_tokens"] = float(np.minimum(tokens_needed, LOST).mean())
            curve.append(row)
            if best_epoch(curve) == epoch:
                best = {name: array.copy() for name, array in weights_of(model).items()}
            if advance:
                advance(1)
        set_weights(model, best)
        penalty = _cuts(model, articles, finest_chars)[1]
    facts = {
        "device": where,
        "shape": vars(shape),
        "finest_chars": finest_chars,
        "penalty": penalty,
        "seed": seed,
    }
    return TrainedScorer(Scorer(best, facts), curve)


def best_epoch(curve: Sequence[Mapping[str, float]]) -> int:
    """Return epoch with the fewest tokens to answer on held-out articles, the first of equals; 0 before the first."""
    return int(min(curve, key=lambda row: row["validation_tokens"])["epoch"]) if curve else 0


def _over(curve: Sequence[Mapping[str, float]], settings: ChunkerTraining) -> bool:
    return len(curve) >= settings.epochs or len(curve) - best_epoch(curve) >= settings.patience


def _cuts(model: Any, articles: Sequence[Article], finest_chars: int) -> tuple[list[list[int]], float]:
    """Return the current cuts of articles into chunks of a mean length, and the penalty for that length."""
    costs_of = [costs(scores(model, a.windows, a.vectors), a.windows.possible) for a in articles]
    penalty = penalty_for(finest_chars, [int(a.ends[-1]) for a in articles], costs_of)
    return [least(cost, penalty) for cost in costs_of], penalty


@dataclass(frozen=True)
class _Data:
    """Training windows of all articles, and the costs to learn."""

    windows: Windows
    vectors: np.ndarray
    targets: Any
    batch_size: int

    @classmethod
    def of(cls, articles: Sequence[Article], finest_chars: int, settings: ChunkerTraining) -> _Data:
        import torch

        vectors = np.concatenate([a.vectors for a in articles]).astype(np.float32)
        targets = torch.from_numpy(np.concatenate(chunk_costs(articles, finest_chars)).astype(np.float32))
        return cls(joined([a.windows for a in articles]), vectors, targets, settings.batch_size)

    def epoch(self, model: Any, optimiser: Any, rng: np.random.Generator) -> float:
        """Train one epoch; returns the mean loss."""
        import torch

        model.train()
        order = torch.from_numpy(rng.permutation(len(self.targets)))
        total = 0.0
        for rows in order.split(self.batch_size):
            loss = self._loss(model, rows)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        return total / max(len(order), 1)

    def _loss(self, model: Any, starts: Any) -> Any:
        """Return poisson deviance up to a constant: a cost is a sum over questions."""
        import torch

        out = forward(model, self.windows, self.vectors, starts.numpy())
        target = self.targets[starts, : out.shape[1]].to(out.device)
        possible = torch.from_numpy(self.windows.possible[starts.numpy(), : out.shape[1]]).to(out.device)
        return (out.clamp(max=20).exp() - target * out)[possible].mean()
