"""The learned chunker: a small transformer over sentence vectors predicts the cost of each possible chunk.

A possible chunk is a run of units (sentences, see `units`) of at most `longest` characters and `WINDOW` units. From one
start, the scorer sees the units that a chunk could contain, as in the paper's window, and gives the end of each unit a
score: how much the chunk up to there costs in tokens until an answer is found. The text is cut where the sum of the
costs of all its chunks, and a penalty for each, is lowest.

References: "Optimizing Retrieval Augmented Generation with Learned Chunking" (Markowitz and
Galiya). There the chunker takes the best end of a window and continues from it; the cheapest cut of the whole text
needs fewer tokens (figures in docs/results.md), and its penalty sets the mean length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources.errors import MogError
from mog_assets.resources.tensors import decode, encode
from mog_assets.text.cuts import WINDOW, Spans, candidates, least, opening, spans_to, unit_chars, units

# The scorer also sees the unit before the start and the unit after the window.
_SEEN = WINDOW + 2
_WORD = re.compile(r"\w+")
# Raised when the inputs or the training of a scorer change: weights and chunks are then rebuilt.
VERSION = "2"
# Number of features of a unit besides its vector, and of its place in the window.
UNIT_FEATURES, PLACE_FEATURES = 9, 4
# Starts that are scored at a time.
_BATCH = 512


@dataclass(frozen=True)
class Shape:
    """The sizes of a scorer.

    Attributes:
        vector: Size of a sentence vector.
        width: Size of the transformer's states.
        layers: Number of its layers.
        heads: Number of its heads.
    """

    vector: int
    width: int = 64
    layers: int = 2
    heads: int = 4


@dataclass(frozen=True)
class Scorer:
    """A trained scorer.

    Attributes:
        weights: Its parameters, float32.
        facts: `shape`, `finest_chars`, `penalty`, `seed`, and the `device` that it was trained on.
    """

    weights: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Windows:
    """The scorer's input for a text: a window for each unit that a chunk may start with.

    Attributes:
        units: int64 array of shape (n, WINDOW + 2): the unit before the start, the window, the unit after it.
        seen: bool array of the same shape: which of them exist.
        features: float32 array of shape (n, WINDOW + 2, features).
        possible: bool array of shape (n, WINDOW): whether a chunk may go from the start to the end of that unit.
    """

    units: np.ndarray
    seen: np.ndarray
    features: np.ndarray
    possible: np.ndarray


def windows(text: str, ends: np.ndarray, vectors: np.ndarray, longest: int) -> Windows:
    """Return the windows of a text.

    Args:
        text: The text.
        ends: Offsets of the ends of its n units.
        vectors: Their unit vectors, float of shape (n, size).
        longest: Characters of the longest chunk. A unit that is longer is a chunk of its own.
    """
    n = len(ends)
    opens = opening(text, ends)
    of_units = _unit_features(text, ends, opens, vectors.astype(np.float32))
    index = np.arange(n)[:, None] + np.arange(-1, WINDOW + 1)
    inside = (index >= 0) & (index < n)
    index = np.clip(index, 0, max(n - 1, 0))
    length, possible = candidates(ends, longest)
    seen = inside & (np.arange(-1, WINDOW + 1) <= possible.sum(axis=1)[:, None])
    place = np.zeros((n, _SEEN, PLACE_FEATURES), np.float32)
    share = np.maximum(length / longest, 1e-3)
    place[:, 1:-1, 0], place[:, 1:-1, 1] = 2 * share, np.log(2 * share)
    # Paragraphs that begin inside the chunk.
    begun = np.cumsum(opens)
    place[:, 1:-1, 2] = begun[index[:, 1:-1]] - begun[:, None]
    place[:, :, 3] = np.arange(-1, WINDOW + 1) / 10
    return Windows(index, seen, np.concatenate([of_units[index], place], axis=2), possible)


def joined(parts: Sequence[Windows]) -> Windows:
    """Join the windows of several texts; the units of each are numbered after those of the texts before it."""
    first = np.cumsum([0, *(len(part.units) for part in parts)])
    return Windows(
        np.concatenate([part.units + before for part, before in zip(parts, first, strict=False)]),
        np.concatenate([part.seen for part in parts]),
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.possible for part in parts]),
    )


def _unit_features(text: str, ends: np.ndarray, opens: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return features of each unit, float32 of shape (units, UNIT_FEATURES)."""
    rows = np.zeros((len(ends), UNIT_FEATURES), np.float32)
    start = 0
    for i, end in enumerate(ends.tolist()):
        unit = text[start:end]
        words = _WORD.findall(unit)
        capitals = sum(word[0].isupper() for word in words[1:])
        counts = (sum(map(str.isdigit, unit)), capitals, *(unit.count(mark) for mark in ",("))
        rows[i, :6] = (np.log(len(unit) / 150), len(words) / len(unit) * 5 - 1, *np.log1p(counts))
        start = end
    rows[:, 6] = opens
    if len(ends):
        centre = vectors.mean(axis=0)
        rows[:, 7] = vectors @ (centre / max(float(np.linalg.norm(centre)), 1e-12))
        rows[:-1, 8] = (vectors[:-1] * vectors[1:]).sum(axis=1)
    return rows


def network(shape: Shape) -> Any:
    """Return an untrained scorer, a torch module: maps vectors, features and seen to scores of ends in the window."""
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vector = nn.Linear(shape.vector, shape.width)
            self.features = nn.Linear(UNIT_FEATURES + PLACE_FEATURES, shape.width)
            # The vectors of few articles are quickly overfitted.
            self.forget = nn.Dropout(0.3)
            layer = nn.TransformerEncoderLayer(
                shape.width, shape.heads, 2 * shape.width, 0.1, "gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
            self.norm = nn.LayerNorm(shape.width)
            self.score = nn.Linear(shape.width, 1)

        def forward(self, vectors: Any, features: Any, seen: Any) -> Any:
            states = self.vector(self.forget(vectors)) + self.features(features)
            states = self.layers(states, src_key_padding_mask=~seen)
            return self.score(self.norm(states))[:, 1:-1, 0]

    return Network()


def device() -> str:
    """Return the device of scorers: `cuda` if torch finds one, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def forward(model: Any, parts: Windows, vectors: np.ndarray, rows: slice | np.ndarray) -> Any:
    """Return scores of some windows by a network: a tensor of shape (rows, most ends of any row), on its device.

    Args:
        model: From `network`.
        parts: The windows.
        vectors: Unit vectors of the units, float of shape (units, size).
        rows: Which of the windows.
    """
    import torch

    def tensor(array: np.ndarray) -> Any:
        return torch.from_numpy(array).to(next(model.parameters()).device)

    wide = int(parts.possible[rows].sum(axis=1).max()) + 2
    given = tensor(vectors[parts.units[rows, :wide]].astype(np.float32, copy=False))
    return model(given, tensor(parts.features[rows, :wide]), tensor(parts.seen[rows, :wide]))


def scores(model: Any, windows_of: Windows, vectors: np.ndarray) -> np.ndarray:
    """Return scores of a network: float32 of shape (starts, WINDOW); those of impossible chunks have no meaning."""
    import torch

    model.eval()
    parts = []
    with torch.inference_mode():
        for first in range(0, len(windows_of.units), _BATCH):
            out = forward(model, windows_of, vectors, slice(first, first + _BATCH)).cpu().numpy()
            parts.append(np.pad(out, ((0, 0), (0, WINDOW - out.shape[1]))))
    return np.concatenate(parts) if parts else np.zeros((0, WINDOW), np.float32)


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """Return weights of a network, by name."""
    return {name: tensor.cpu().numpy() for name, tensor in model.state_dict().items()}


def set_weights(model: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Load weights from `weights_of` into a network of the same structure.

    Raises:
        ValueError, RuntimeError: the structure is another one.
    """
    import torch

    if wrong := sorted(weights_of(model).keys() ^ weights.keys()):
        raise ValueError(f"weights are missing or belong to another network: {', '.join(wrong[:5])}")
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()}, strict=False)


def costs(scored: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Return cost of each possible chunk: float64 of shape (starts, WINDOW), infinite for impossible ones.

    Args:
        scored: From `scores`, the logarithms of the costs.
        possible: See `Windows`.
    """
    return np.where(possible, np.exp(np.clip(scored.astype(np.float64), -20, 20)), np.inf)


def penalty_for(mean_chars: float, characters: Sequence[int], scores_of: Sequence[np.ndarray]) -> float:
    """Return the penalty for which the chunks of some texts come closest to a mean length.

    Args:
        mean_chars: The length, in characters.
        characters: Length of each text.
        scores_of: From `costs`, of each text.
    """
    wanted = sum(characters) / mean_chars
    # Between a penalty that gives only the shortest chunks and one that gives only the longest.
    span = max((float(cost[np.isfinite(cost)].max(initial=0)) for cost in scores_of), default=0.0) * WINDOW + 1
    return bisected(lambda penalty: sum(len(least(cost, penalty)) for cost in scores_of), wanted, span, 40, 0.002)


def bisected(chunks: Callable[[float], int], wanted: float, span: float, steps: int, equal: float = 0.0) -> float:
    """Return the value for which the number of chunks comes closest to `wanted`, by bisection.

    Args:
        chunks: Number of chunks by value; must not increase with the value.
        wanted: Target number.
        span: The value is between −span and span.
        steps: How often the interval is halved, at most.
        equal: Numbers that differ by at most this share count as equal.
    """
    low, high = -span, span
    for _ in range(steps):
        middle = (low + high) / 2
        count = chunks(middle)
        if abs(count - wanted) <= equal * wanted:
            return middle
        low, high = (middle, high) if count > wanted else (low, middle)
    return (low + high) / 2


def opened(weights: Path) -> tuple[Scorer, Any]:
    """Return a stored scorer, and its network.

    Args:
        weights: Its safetensors file.

    Raises:
        MogError: the file is not that of a scorer.
    """
    try:
        arrays, facts = decode(weights.read_bytes())
        model = network(Shape(**facts["shape"]))
        set_weights(model, arrays)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise MogError(f"chunker {weights}: expected the weights of a chunker ({reason}): run `mog run`") from error
    return Scorer(arrays, facts), model.to(device())


def stored(scorer: Scorer) -> bytes:
    """Return a self-describing safetensors file; equal scorers give equal bytes."""
    return encode({name: np.ascontiguousarray(a) for name, a in scorer.weights.items()}, scorer.facts)


def spans_of(text: str, finest_chars: int, vectors: np.ndarray, scorer: Scorer, model: Any) -> Spans:
    """Return spans of a text; no chunk is longer than twice `finest_chars`.

    Args:
        text: Any text.
        finest_chars: Mean length that the penalty was chosen for, on the training documents.
        vectors: Unit vectors of the text's units of at most `unit_chars` characters, float of shape (units, size).
        scorer: Trained for `finest_chars`.
        model: Its network.

    As in the paper, a sentence longer than the window is a chunk of its own. It is a unit, or several units if it is
    longer than the longest chunk.
    """
    ends = units(text, unit_chars(finest_chars))
    if len(vectors) != len(ends):
        raise ValueError(f"vectors must have a row for each of the {len(ends)} units of the text, got {len(vectors)}")
    parts = windows(text, ends, vectors, unit_chars(finest_chars))
    cost = costs(scores(model, parts, vectors), parts.possible)
    taken = least(cost, scorer.facts["penalty"])
    return spans_to(ends[np.asarray(taken, np.int64) - 1] if taken else [])
