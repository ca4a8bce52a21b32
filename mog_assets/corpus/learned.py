"""The learned chunker: a small transformer over sentence vectors says what each possible chunk costs.

A possible chunk is a run of units (sentences, see `units`) of at most `longest` characters and `WINDOW` units. The
scorer looks at the units that a chunk could hold from one start on, as in the paper's window, and gives every end of a
unit among them a score: of what the chunk up to there costs those who look for an answer in it. The text is cut where
the costs of all its chunks, and a penalty for each, come to the least.

References: "Optimizing Retrieval Augmented Generation with Learned Chunking" (Markowitz and Galiya; SYSTEMS.md,
section 3). There the chunker takes the best end of a window and moves on from it; the sum over the text finds less to
regret (benchmarks/README.md has the figures), and its penalty sets the mean length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.corpus.chunkers import WINDOW, Spans, candidates, least, opening, spans_to, unit_chars
from mog_assets.corpus.sentences import units
from mog_assets.errors import MogError
from mog_assets.tensors import decode, encode

# The unit before the start and the one behind the window are seen as well.
_SEEN = WINDOW + 2
_WORD = re.compile(r"\w+")
# What the scorer is told of a unit besides its vector, and of its place in the window.
UNIT_FEATURES, PLACE_FEATURES = 9, 4
# Starts that are scored at a time.
_BATCH = 512


@dataclass(frozen=True)
class Shape:
    """The sizes of a scorer.

    Attributes:
        vector: Entries of a sentence vector.
        width: Entries of the transformer's states.
        layers: Number of its layers.
        heads: Number of its heads.
    """

    vector: int
    width: int = 64
    layers: int = 2
    heads: int = 4


@dataclass(frozen=True)
class Scorer:
    """A scorer that may be used.

    Attributes:
        weights: Its parameters, float32.
        facts: `encoder` (fingerprint), `shape`, `finest_chars`, `objective`, `penalty`, and what it was trained on.
    """

    weights: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Windows:
    """What a scorer is given of a text: a window for each unit that a chunk may start with.

    Attributes:
        units: int64 array of shape (n, WINDOW + 2): the unit before the start, the window, the unit behind it.
        seen: bool array of the same shape: which of them there are.
        features: float32 array of shape (n, WINDOW + 2, features).
        possible: bool array of shape (n, WINDOW): whether a chunk may go from the start to the end of that unit.
    """

    units: np.ndarray
    seen: np.ndarray
    features: np.ndarray
    possible: np.ndarray


def windows(text: str, ends: np.ndarray, vectors: np.ndarray, longest: int) -> Windows:
    """The windows of a text.

    Args:
        text: The text.
        ends: Offsets of the ends of its n units.
        vectors: Their unit vectors, float of shape (n, size).
        longest: Characters of the longest chunk. A unit that is longer is a chunk of its own.
    """
    n = len(ends)
    opens = opening(text, ends)
    own = _unit_features(text, ends, opens, vectors.astype(np.float32))
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
    return Windows(index, seen, np.concatenate([own[index], place], axis=2), possible)


def _unit_features(text: str, ends: np.ndarray, opens: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Of each unit, float32 of shape (units, UNIT_FEATURES)."""
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
    """The untrained scorer, a torch module: from vectors, features and seen to a score for each end in the window."""
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vector = nn.Linear(shape.vector, shape.width)
            self.features = nn.Linear(UNIT_FEATURES + PLACE_FEATURES, shape.width)
            # Vectors of few articles are soon learned by heart.
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


def scores(model: Any, found: Windows, vectors: np.ndarray) -> np.ndarray:
    """Scores of a network: float32 of shape (starts, WINDOW); what they are of impossible chunks means nothing."""
    import torch

    model.eval()
    parts = []
    with torch.inference_mode():
        for first in range(0, len(found.units), _BATCH):
            rows = slice(first, first + _BATCH)
            # As far as any start of the batch reaches.
            wide = int(found.possible[rows].sum(axis=1).max()) + 2
            out = model(
                torch.from_numpy(vectors[found.units[rows, :wide]].astype(np.float32)),
                torch.from_numpy(found.features[rows, :wide]),
                torch.from_numpy(found.seen[rows, :wide]),
            ).numpy()
            parts.append(np.pad(out, ((0, 0), (0, _SEEN - wide))))
    return np.concatenate(parts) if parts else np.zeros((0, WINDOW), np.float32)


def costs(scored: np.ndarray, possible: np.ndarray, objective: str) -> np.ndarray:
    """What each possible chunk costs: float64 of shape (starts, WINDOW), infinite where there can be none.

    Args:
        scored: From `scores`.
        possible: See `Windows`.
        objective: What the scorer was trained for. `regression`: a score is the logarithm of the cost. `preference`:
            the greater, the sooner a chunk ends there; its cost is −log of the softmax over the window.
    """
    values = scored.astype(np.float64)
    if objective == "regression":
        return np.where(possible, np.exp(np.clip(values, -20, 20)), np.inf)
    masked = np.where(possible, values, -np.inf)
    most = masked.max(axis=1, keepdims=True)
    return most + np.log(np.exp(masked - most).sum(axis=1, keepdims=True)) - masked


def penalty_for(mean_chars: float, characters: Sequence[int], held: Sequence[np.ndarray]) -> float:
    """The penalty with which the chunks of some texts have a mean length, as nearly as it can be met.

    Args:
        mean_chars: The length, in characters.
        characters: Of each text.
        held: From `costs`, of each text.
    """
    wanted = sum(characters) / mean_chars
    # Between a penalty that leaves nothing but the shortest chunks and one that leaves nothing but the longest.
    span = max((float(cost[np.isfinite(cost)].max(initial=0)) for cost in held), default=0.0) * WINDOW + 1
    low, high = -span, span
    for _ in range(40):
        middle = (low + high) / 2
        found = sum(len(least(cost, middle)) for cost in held)
        if abs(found - wanted) <= 0.002 * wanted:
            return middle
        low, high = (middle, high) if found > wanted else (low, middle)
    return (low + high) / 2


def opened(weights: Path) -> tuple[Scorer, Any]:
    """A stored scorer, and its network.

    Raises:
        MogError: the file is none.
    """
    import torch

    try:
        arrays, facts = decode(weights.read_bytes())
        model = network(Shape(**facts["shape"]))
        model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise MogError(f"chunker {weights}: expected the weights of a chunker ({reason}): run `mog run`") from error
    return Scorer(arrays, facts), model


def stored(scorer: Scorer) -> bytes:
    """A safetensors file that says itself what it is; equal scorers give equal bytes."""
    return encode({name: np.ascontiguousarray(a) for name, a in scorer.weights.items()}, scorer.facts)


def spans_of(text: str, finest_chars: int, vectors: np.ndarray, scorer: Scorer, model: Any) -> Spans:
    """Spans of a text; no chunk is longer than twice `finest_chars`.

    Args:
        text: Any text.
        finest_chars: Mean length that the penalty was chosen for, on the documents that the scorer was trained on.
        vectors: Unit vectors of the text's units of at most `unit_chars` characters, float of shape (units, size).
        scorer: Trained for `finest_chars`.
        model: Its network.

    References: SYSTEMS.md, section 3: "A sentence longer than the window is forced to be a chunk of its own." It is a
    unit, or several where it is longer than a chunk may be.
    """
    ends = units(text, unit_chars(finest_chars))
    if len(vectors) != len(ends):
        raise ValueError(f"vectors must have a row for each of the {len(ends)} units of the text, got {len(vectors)}")
    found = windows(text, ends, vectors, unit_chars(finest_chars))
    cost = costs(scores(model, found, vectors), found.possible, scorer.facts["objective"])
    taken = least(cost, scorer.facts["penalty"])
    return spans_to(ends[np.asarray(taken, np.int64) - 1] if taken else [])
