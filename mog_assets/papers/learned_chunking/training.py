"""Training of the learned chunker: questions with known answer spans show which chunks would have been best.

References: "Optimizing Retrieval Augmented Generation with Learned Chunking" (Markowitz and Galiya), "Train the Chunker
End-to-End on Question Answering" (Markowitz and Galiya).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.chunking.cuts import least
from mog_assets.config import ChunkerTraining
from mog_assets.papers.learned_chunking.articles import Article, packed
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
from mog_assets.papers.learned_chunking.preferences import bonus_for, preferences
from mog_assets.papers.learned_chunking.text_encoder import joint
from mog_assets.papers.learned_chunking.tokens_to_answer import Distractors, chunk_costs, distractors, tokens_to_answer
from mog_assets.resources.errors import MogError

# Cap on the tokens to answer of a question, for curves and early stopping: the tail would dominate every mean.
LOST = 2000


@dataclass(frozen=True)
class TrainedScorer:
    """A scorer and its training history.

    Attributes:
        scorer: From the epoch with the fewest tokens to answer on held-out articles.
        curve: Per epoch: `epoch` (from 1), `train_loss`, `train_tokens`, `validation_tokens` (tokens to answer, at most
            `LOST`, with chunks of the mean length).
        files: `FILES` of the encoder that was trained with it, by name; empty without one.
    """

    scorer: Scorer
    curve: list[dict[str, float]]
    files: Mapping[str, str]


State = dict[str, Any]
"""The state of training after an epoch: `arrays`, by name, and `facts`, as JSON values."""


def train(
    articles: Sequence[Article],
    held_out: np.ndarray,
    finest_chars: int,
    settings: ChunkerTraining,
    seed: int,
    advance: Callable[[int], None] | None = None,
    resume: State | None = None,
    save: Callable[[State], None] | None = None,
) -> TrainedScorer:
    """Train a scorer, on a CUDA device if there is one.

    The same arguments give the same weights, even if training was interrupted; on CUDA up to rounding.

    Args:
        articles: Training documents. If the settings name an encoder, they have it, and it is trained as well.
        held_out: Which of them are used for early stopping, bool array of shape (articles,).
        finest_chars: Mean length of chunks, in characters.
        settings: Of the training.
        seed: Of weights, order, dropout and drawn ends.
        advance: Called with 1 after each epoch.
        resume: The last state that `save` was given.
        save: Called after each epoch.

    Raises:
        MogError: the loss is not finite, or a batch does not fit into memory.
    """
    import torch

    encoder, vectors = articles[0].encoder, articles[0].vectors
    if (settings.encoder is None) != (encoder is None):
        raise ValueError(f"articles must be read by the encoder of the settings, {settings.encoder}, got {encoder}")
    where = device()
    fit = [a for a, out in zip(articles, held_out, strict=True) if not out]
    rest = [a for a, out in zip(articles, held_out, strict=True) if out]
    with torch.random.fork_rng(devices=[] if where == "cpu" else None):
        torch.manual_seed(seed)
        if encoder is None:
            assert vectors is not None
            shape = Shape(vectors.shape[1], settings.width, settings.layers)
            model = network(shape)
            groups = [{"params": model.parameters()}]
        else:
            shape = Shape(encoder.size, settings.width, settings.layers)
            model = joint(network(shape), encoder)
            groups = [
                {"params": model.head.parameters()},
                {"params": model.encoder.parameters(), "lr": settings.encoder_learning_rate},
            ]
        model.to(where)
        optimiser = torch.optim.AdamW(groups, lr=settings.learning_rate, weight_decay=0.05)
        curve: list[dict[str, float]] = []
        best: dict[str, np.ndarray] = {}
        if resume:
            curve, best = _restored(model, optimiser, resume)
        data = _Data.of(fit, finest_chars, settings)
        while not _over(curve, settings):
            epoch = len(curve) + 1
            # The random numbers of an epoch depend on its number, so resumed training draws the same.
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
                    + (f" or encoder_learning_rate ({settings.encoder_learning_rate})" if encoder else "")
                )
            row = {"epoch": epoch, "train_loss": loss}
            for name, part in (("train", fit), ("validation", rest)):
                tokens_needed = np.concatenate(tokens_to_answer(part, _cuts(model, part, finest_chars, settings)[0]))
                row[f"{name}_tokens"] = float(np.minimum(tokens_needed, LOST).mean())
            curve.append(row)
            if best_epoch(curve) == epoch:
                best = {name: array.copy() for name, array in weights_of(model).items()}
            if save:
                save(_state(model, optimiser, curve, best))
            if advance:
                advance(1)
        set_weights(model, best)
        penalty = _cuts(model, articles, finest_chars, settings)[1]
    facts = {
        "encoder": settings.encoder,
        "device": where,
        "shape": vars(shape),
        "finest_chars": finest_chars,
        "objective": settings.objective,
        "penalty": penalty,
        "seed": seed,
    }
    return TrainedScorer(Scorer(best, facts), curve, encoder.files() if encoder else {})


def best_epoch(curve: Sequence[Mapping[str, float]]) -> int:
    """The epoch with the fewest tokens to answer on held-out articles, the first of equals; 0 before the first."""
    return int(min(curve, key=lambda row: row["validation_tokens"])["epoch"]) if curve else 0


def _over(curve: Sequence[Mapping[str, float]], settings: ChunkerTraining) -> bool:
    return len(curve) >= settings.epochs or len(curve) - best_epoch(curve) >= settings.patience


def _cuts(
    model: Any, articles: Sequence[Article], finest_chars: int, settings: ChunkerTraining
) -> tuple[list[list[int]], float]:
    """The current cuts of articles into chunks of a mean length, and the penalty for that length."""
    costs_of = [costs(scores(model, a.windows, a.vectors), a.windows.possible, settings.objective) for a in articles]
    penalty = penalty_for(finest_chars, [int(a.ends[-1]) for a in articles], costs_of)
    return [least(cost, penalty) for cost in costs_of], penalty


@dataclass(frozen=True)
class _Data:
    """Training windows of all articles, and the inputs of their losses."""

    articles: Sequence[Article]
    finest_chars: int
    settings: ChunkerTraining
    windows: Windows
    vectors: np.ndarray | None
    first: np.ndarray
    targets: Any
    others: Sequence[Distractors]

    @classmethod
    def of(cls, articles: Sequence[Article], finest_chars: int, settings: ChunkerTraining) -> _Data:
        import torch

        first = np.cumsum([0, *(len(a.ends) for a in articles)])
        given = [a.vectors for a in articles if a.vectors is not None]
        vectors = np.concatenate(given).astype(np.float32) if given else None
        targets, others = None, []
        if settings.objective == "regression":
            targets = torch.from_numpy(np.concatenate(chunk_costs(articles, finest_chars)).astype(np.float32))
        else:
            others = list(distractors(articles, [packed(a, finest_chars) for a in articles]))
        windows = joined([a.windows for a in articles])
        return cls(articles, finest_chars, settings, windows, vectors, first, targets, others)

    def epoch(self, model: Any, optimiser: Any, rng: np.random.Generator) -> float:
        """Train one epoch; returns the mean loss."""
        import torch

        pairs = self._pairs(model, rng) if self.targets is None else None
        model.train()
        order = torch.from_numpy(rng.permutation(int(self.first[-1]) if pairs is None else len(pairs)))
        total = 0.0
        for rows in order.split(self.settings.batch_size):
            loss = self._regression(model, rows) if pairs is None else self._preference(model, pairs[rows])
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        return total / max(len(order), 1)

    def _regression(self, model: Any, starts: Any) -> Any:
        """Poisson deviance up to a constant: a cost is a sum over questions."""
        import torch

        out = forward(model, self.windows, self.vectors, starts.numpy())
        target = self.targets[starts, : out.shape[1]].to(out.device)
        possible = torch.from_numpy(self.windows.possible[starts.numpy(), : out.shape[1]]).to(out.device)
        return (out.clamp(max=20).exp() - target * out)[possible].mean()

    def _preference(self, model: Any, pairs: Any) -> Any:
        """Cross-entropy over the two scores."""
        import torch

        out = forward(model, self.windows, self.vectors, pairs[:, 0].numpy())
        better, worse = (out.gather(1, pairs[:, column : column + 1].to(out.device))[:, 0] for column in (1, 2))
        return torch.nn.functional.softplus(worse - better).mean()

    def _pairs(self, model: Any, rng: np.random.Generator) -> Any:
        import torch

        scores_of = [scores(model, a.windows, a.vectors) for a in self.articles]
        bonus = bonus_for(self.articles, scores_of, self.finest_chars)
        every = self.settings.questions == "all"
        pairs_of = preferences(self.articles, scores_of, self.others, bonus, every, rng)
        rows = [(int(self.first[p.article]) + p.start, p.better, p.worse) for p in pairs_of]
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)


def _state(model: Any, optimiser: Any, curve: list[dict[str, float]], best: Mapping[str, np.ndarray]) -> State:
    arrays = {f"now.{name}": array for name, array in weights_of(model).items()}
    arrays |= {f"best.{name}": array for name, array in best.items()}
    for number, state_of in optimiser.state_dict()["state"].items():
        arrays |= {f"optimiser.{number}.{name}": value.cpu().numpy() for name, value in state_of.items()}
    return {"arrays": arrays, "facts": {"curve": curve}}


def _restored(model: Any, optimiser: Any, state: State) -> tuple[list[dict[str, float]], dict[str, np.ndarray]]:
    import torch

    parts: dict[str, dict[str, np.ndarray]] = {"now": {}, "best": {}, "optimiser": {}}
    for name, array in state["arrays"].items():
        part, rest = name.split(".", 1)
        parts[part][rest] = array
    set_weights(model, parts["now"])
    saved = optimiser.state_dict()
    for name, array in parts["optimiser"].items():
        number, key = name.split(".")
        saved["state"].setdefault(int(number), {})[key] = torch.from_numpy(array.copy())
    optimiser.load_state_dict(saved)
    return list(state["facts"]["curve"]), parts["best"]
