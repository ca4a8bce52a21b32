"""Training the reader: windows with the answer, and windows that were found but lack it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as f

from mog_assets.answer.reader import network
from mog_assets.answer.reader.windows import ReaderTokenizer, Window
from mog_assets.plugins.reader_training import adapters
from mog_assets.plugins.reader_training.examples import Lesson, ReaderExample, TokenisedDocument, shown
from mog_assets.resources.bert import Bert
from mog_assets.resources.errors import MogError

EPOCHS = 4
BATCH = 16
LEARNING_RATE = 2e-3
DROPOUT = 0.05
# Share of the steps in which the learning rate rises; then it falls, as a cosine, to 0.
_RISE = 0.1
_DECAY, _CLIP = 0.01, 1.0
# Parts of the state between epochs: what is trained, and AdamW's moments of it.
_STATE = ("value", "exp_avg", "exp_avg_sq")


def device() -> str:
    """Return where it is trained: `cuda` if torch finds one, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def batch(windows: Sequence[Window]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return tokens, kinds, mask and where an answer may be, each of shape (windows, tokens)."""
    length = max(len(w.ids) for w in windows)
    ids, kinds, mask = (torch.zeros((len(windows), length), dtype=torch.int64) for _ in range(3))
    allowed = torch.zeros((len(windows), length), dtype=torch.bool)
    for row, window in enumerate(windows):
        used = len(window.ids)
        ids[row, :used], kinds[row, :used] = torch.from_numpy(window.ids), torch.from_numpy(window.kinds)
        mask[row, :used] = 1
        allowed[row, :used] = torch.from_numpy(window.spans[:, 0] >= 0)
    allowed[:, 0] = True
    return ids, kinds, mask, allowed


def loss_of(bert: Bert, trained: Mapping[str, Tensor], some: Sequence[ReaderExample]) -> Tensor:
    """Return mean cross-entropy of first and last token, in nats."""
    where = trained["head.bias"].device
    ids, kinds, mask, allowed = (tensor.to(where) for tensor in batch([one.window for one in some]))
    logits = network.logits(bert, trained, ids, kinds, mask).masked_fill(~allowed[:, :, None], -torch.inf)
    target = torch.tensor([[one.first, one.last] for one in some], device=where)
    return f.cross_entropy(logits, target)


def start(bert: Bert, seed: int) -> dict[str, np.ndarray]:
    """Return the state before the first epoch."""
    tensors = adapters.initial(bert, torch.Generator().manual_seed(seed))
    empty = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    return _state(tensors, [empty, empty])


def values(state: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return what is trained, in a state."""
    # In one order, whatever order a file has: sums over all of them are rounded in theirs.
    names = sorted(name for name in state if name.startswith("value/"))
    return {name.removeprefix("value/"): torch.from_numpy(state[name].copy()) for name in names}


def _state(trained: Mapping[str, Tensor], moments: Sequence[Mapping[str, Tensor]]) -> dict[str, np.ndarray]:
    parts = zip(_STATE, [trained, *moments], strict=True)
    tensors = {f"{part}/{name}": tensor for part, layer in parts for name, tensor in layer.items()}
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def epoch(
    bert: Bert,
    words: ReaderTokenizer,
    documents: Mapping[int, TokenisedDocument],
    lessons: Sequence[Lesson],
    state: Mapping[str, np.ndarray],
    number: int,
    seed: int,
    epochs: int = EPOCHS,
    advance: Callable[[int], object] = lambda done: None,
) -> tuple[dict[str, np.ndarray], float]:
    """Train adapters and head on every question once; the encoder's own weights stay.

    Its result depends on its arguments only, on CUDA up to rounding, so training can go on after the last whole epoch.

    Args:
        bert: The encoder, on the device of the training.
        words: Its tokenizer.
        documents: What lessons refer to.
        lessons: Training questions, at least one.
        state: Result of `start` or of the epoch before.
        number: Of the epoch, from 0.
        seed: Of order, windows and dropout.
        epochs: Number of epochs in all.
        advance: Called with the number of questions done.

    Returns:
        The state, and the mean loss in nats.
    """
    torch.manual_seed(seed * 1000 + number)
    random = np.random.default_rng([seed, number])
    where = next(iter(bert.weights.values())).device
    trained = {name: tensor.to(where).requires_grad_() for name, tensor in values(state).items()}
    optimiser = torch.optim.AdamW(trained.values(), lr=LEARNING_RATE, weight_decay=_DECAY)
    steps = -(-len(lessons) // BATCH)
    if number:
        for name, tensor in trained.items():
            moments = {part: torch.from_numpy(state[f"{part}/{name}"].copy()).to(where) for part in _STATE[1:]}
            optimiser.state[tensor] = {"step": torch.tensor(float(number * steps)), **moments}
    within, losses = adapters.adapting(bert, trained, DROPOUT), []
    for step, rows in enumerate(np.array_split(random.permutation(len(lessons)), steps), number * steps):
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * _rate((step + 0.5) / (epochs * steps))
        some = [one for row in rows.tolist() for one in shown(lessons[row], documents, words, random)]
        # Windows of like lengths together: less padding.
        some.sort(key=lambda one: len(one.window.ids))
        halves = [half for half in (some[: len(some) // 2], some[len(some) // 2 :]) if half]
        optimiser.zero_grad()
        total = 0.0
        for half in halves:
            loss = loss_of(within, trained, half) * (len(half) / len(some))
            loss.backward()
            total += float(loss.detach())
        if halves:
            torch.nn.utils.clip_grad_norm_(list(trained.values()), _CLIP)
            optimiser.step()
            losses.append(total)
        advance(len(rows))
    if not losses:
        raise MogError(
            "question_sets: expected training questions whose answers are shorter than a window of the reader, got "
            "none: add some, or set `answering.reader: neural`"
        )
    moved = [{name: optimiser.state[tensor][part] for name, tensor in trained.items()} for part in _STATE[1:]]
    return _state(trained, moved), float(np.mean(losses))


def _rate(done: float) -> float:
    """Return share of the highest learning rate after a share of all steps."""
    return done / _RISE if done < _RISE else (1 + math.cos(math.pi * (done - _RISE) / (1 - _RISE))) / 2
