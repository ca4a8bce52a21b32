"""The learned chunker: a small transformer over sentence vectors says what each possible chunk costs.

The vectors are those of sentences by themselves, or come from an encoder that reads the text of the window.

A possible chunk is a run of units (sentences, see `units`) of at most `longest` characters and `WINDOW` units. The
scorer looks at the units that a chunk could hold from one start on, as in the paper's window, and gives every end of a
unit among them a score: of what the chunk up to there costs those who look for an answer in it. The text is cut where
the costs of all its chunks, and a penalty for each, come to the least.

References: "Optimizing Retrieval Augmented Generation with Learned Chunking" (Markowitz and Galiya; SYSTEMS.md,
section 3). There the chunker takes the best end of a window and moves on from it; the cheapest cut of the whole text
needs fewer tokens (docs/results.md has the figures), and its penalty sets the mean length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.chunking.cuts import WINDOW, Spans, candidates, least, opening, spans_to, unit_chars
from mog_assets.chunking.sentences import units
from mog_assets.chunking.text_encoder import joint, tokens_of
from mog_assets.chunking.text_encoder import opened as opened_encoder
from mog_assets.tensors import decode, encode
from resources.errors import MogError

# The unit before the start and the one behind the window are seen as well.
_SEEN = WINDOW + 2
_WORD = re.compile(r"\w+")
# Raised with what a scorer is told or learns: weights and chunks made before are then made again.
VERSION = "1"
# What the scorer is told of a unit besides its vector, and of its place in the window.
UNIT_FEATURES, PLACE_FEATURES = 9, 4
# Starts that are scored at a time, and where their texts are read: attention to 512 tokens takes memory.
_BATCH, _READ_BATCH = 512, 32


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
        facts: `encoder` (the name of the one that was trained with it, None where there is none), `shape`,
            `finest_chars`, `objective`, `penalty`, `seed`, and the `device` that it was trained on.
    """

    weights: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class WindowTokens:
    """The tokens of the text of each window, from the first unit that is seen to the last, as far as an encoder reads.

    Attributes:
        tokens: int32 array of shape (n, length): their ids, −1 behind the last.
        column: int8 array of the same shape: the column of `Windows.units` whose unit holds the token, −1 for none.
    """

    tokens: np.ndarray
    column: np.ndarray


@dataclass(frozen=True)
class Windows:
    """What a scorer is given of a text: a window for each unit that a chunk may start with.

    Attributes:
        units: int64 array of shape (n, WINDOW + 2): the unit before the start, the window, the unit behind it.
        seen: bool array of the same shape: which of them there are.
        features: float32 array of shape (n, WINDOW + 2, features).
        possible: bool array of shape (n, WINDOW): whether a chunk may go from the start to the end of that unit. With
            an `encoder`, it reads that far, or the unit is the first.
        reading: For an encoder; None where vectors of sentences are taken.
    """

    units: np.ndarray
    seen: np.ndarray
    features: np.ndarray
    possible: np.ndarray
    reading: WindowTokens | None = None


def windows(text: str, ends: np.ndarray, vectors: np.ndarray | None, longest: int, tokenizer: Any = None) -> Windows:
    """The windows of a text.

    Args:
        text: The text.
        ends: Offsets of the ends of its n units.
        vectors: Their unit vectors, float of shape (n, size); None with a tokenizer.
        longest: Characters of the longest chunk. A unit that is longer is a chunk of its own.
        tokenizer: Of an encoder that reads the windows, in place of vectors.
    """
    n = len(ends)
    opens = opening(text, ends)
    own = _unit_features(text, ends, opens, None if vectors is None else vectors.astype(np.float32))
    index = np.arange(n)[:, None] + np.arange(-1, WINDOW + 1)
    inside = (index >= 0) & (index < n)
    index = np.clip(index, 0, max(n - 1, 0))
    length, possible = candidates(ends, longest)
    seen = inside & (np.arange(-1, WINDOW + 1) <= possible.sum(axis=1)[:, None])
    reading = None
    if tokenizer is not None:
        reading = _reading(text, ends, index, seen, tokenizer)
        possible = possible & (np.arange(WINDOW) < np.maximum(reading.column.max(axis=1, initial=0), 1)[:, None])
        seen = inside & (np.arange(-1, WINDOW + 1) <= possible.sum(axis=1)[:, None])
    place = np.zeros((n, _SEEN, PLACE_FEATURES), np.float32)
    share = np.maximum(length / longest, 1e-3)
    place[:, 1:-1, 0], place[:, 1:-1, 1] = 2 * share, np.log(2 * share)
    # Paragraphs that begin inside the chunk.
    begun = np.cumsum(opens)
    place[:, 1:-1, 2] = begun[index[:, 1:-1]] - begun[:, None]
    place[:, :, 3] = np.arange(-1, WINDOW + 1) / 10
    return Windows(index, seen, np.concatenate([own[index], place], axis=2), possible, reading)


def _reading(text: str, ends: np.ndarray, index: np.ndarray, seen: np.ndarray, tokenizer: Any) -> WindowTokens:
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    rows = np.arange(len(ends))
    first = seen.argmax(axis=1)
    last = first + seen.sum(axis=1) - 1
    begin = starts[index[rows, first]]
    read = tokens_of(tokenizer, [text[a:b] for a, b in zip(begin, ends[index[rows, last]], strict=True)])
    shape = len(read), max((len(ids) for ids, _ in read), default=0)
    tokens, column = np.full(shape, -1, np.int32), np.full(shape, -1, np.int8)
    for row, (ids, place) in enumerate(read):
        tokens[row, : len(ids)] = ids
        # Columns follow the units, of which the start is in the second.
        unit = np.searchsorted(ends, begin[row] + place, side="right")
        column[row, : len(ids)] = np.where(place >= 0, unit - row + 1, -1)
    return WindowTokens(tokens, column)


def joined(parts: Sequence[Windows]) -> Windows:
    """The windows of several texts as those of one: units of each are numbered after those of the texts before it."""
    first = np.cumsum([0, *(len(part.units) for part in parts)])
    reading = None
    if readings := [part.reading for part in parts if part.reading is not None]:
        wide = max(one.tokens.shape[1] for one in readings)
        reading = WindowTokens(
            *(
                np.concatenate([np.pad(a, ((0, 0), (0, wide - a.shape[1])), constant_values=-1) for a in arrays])
                for arrays in ([one.tokens for one in readings], [one.column for one in readings])
            )
        )
    return Windows(
        np.concatenate([part.units + before for part, before in zip(parts, first, strict=False)]),
        np.concatenate([part.seen for part in parts]),
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.possible for part in parts]),
        reading,
    )


def _unit_features(text: str, ends: np.ndarray, opens: np.ndarray, vectors: np.ndarray | None) -> np.ndarray:
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
    if vectors is not None and len(ends):
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
            # It reads no text: vectors are given.
            self.tokenizer = None

        def forward(self, vectors: Any, features: Any, seen: Any) -> Any:
            states = self.vector(self.forget(vectors)) + self.features(features)
            states = self.layers(states, src_key_padding_mask=~seen)
            return self.score(self.norm(states))[:, 1:-1, 0]

    return Network()


def device() -> str:
    """Where scorers are trained and used: `cuda` where torch finds such a device, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def forward(model: Any, found: Windows, vectors: np.ndarray | None, rows: slice | np.ndarray) -> Any:
    """Scores of some windows by a network: a tensor of shape (rows, as many ends as any of them has), on its device.

    Args:
        model: From `network`, or `joint` where the windows are to be read.
        found: The windows.
        vectors: Unit vectors of the units, float of shape (units, size); None where windows are read.
        rows: Which of the windows.
    """
    import torch

    def tensor(array: np.ndarray) -> Any:
        return torch.from_numpy(array).to(next(model.parameters()).device)

    wide = int(found.possible[rows].sum(axis=1).max()) + 2
    if found.reading is None:
        assert vectors is not None
        given = tensor(vectors[found.units[rows, :wide]].astype(np.float32, copy=False))
    else:
        long = max(int((found.reading.tokens[rows] >= 0).sum(axis=1).max()), 1)
        read = found.reading.tokens[rows, :long], found.reading.column[rows, :long]
        given = tuple(tensor(array.astype(np.int64)) for array in read)
    return model(given, tensor(found.features[rows, :wide]), tensor(found.seen[rows, :wide]))


def scores(model: Any, found: Windows, vectors: np.ndarray | None) -> np.ndarray:
    """Scores of a network: float32 of shape (starts, WINDOW); what they are of impossible chunks means nothing."""
    import torch

    model.eval()
    parts = []
    size = _BATCH if found.reading is None else _READ_BATCH
    with torch.inference_mode():
        for first in range(0, len(found.units), size):
            out = forward(model, found, vectors, slice(first, first + size)).cpu().numpy()
            parts.append(np.pad(out, ((0, 0), (0, WINDOW - out.shape[1]))))
    return np.concatenate(parts) if parts else np.zeros((0, WINDOW), np.float32)


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """What a network has learned, by name; of names that share a tensor, the first."""
    own = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    return {name: held.cpu().numpy() for name, held in model.state_dict().items() if name in own}


def set_weights(model: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Give a network what `weights_of` took from one of the same structure.

    Raises:
        ValueError, RuntimeError: it was another structure.
    """
    import torch

    if wrong := sorted(weights_of(model).keys() ^ weights.keys()):
        raise ValueError(f"weights of {', '.join(wrong[:5])} are missing, or of another network")
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()}, strict=False)


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
    return bisected(lambda penalty: sum(len(least(cost, penalty)) for cost in held), wanted, span, 40, 0.002)


def bisected(chunks: Callable[[float], int], wanted: float, span: float, steps: int, equal: float = 0.0) -> float:
    """The value with which there are as many chunks as wanted, as nearly as it can be met.

    Args:
        chunks: Their number, which does not grow with the value.
        wanted: How many there should be.
        span: The value lies between minus and plus this.
        steps: How often the interval is halved, at most.
        equal: Numbers that differ by this share are as good as equal.
    """
    low, high = -span, span
    for _ in range(steps):
        middle = (low + high) / 2
        found = chunks(middle)
        if abs(found - wanted) <= equal * wanted:
            return middle
        low, high = (middle, high) if found > wanted else (low, middle)
    return (low + high) / 2


def opened(weights: Path, encoder: Mapping[str, Path] | None = None) -> tuple[Scorer, Any]:
    """A stored scorer, and its network.

    Args:
        weights: Its safetensors file.
        encoder: The `FILES` of the encoder that was trained with it, by name.

    Raises:
        MogError: the file is none, or not that of a scorer with such an encoder.
    """
    try:
        arrays, facts = decode(weights.read_bytes())
        model = network(Shape(**facts["shape"]))
        if (facts.get("encoder") is None) != (encoder is None):
            raise ValueError(
                f"trained with the encoder {facts.get('encoder')}, opened with{'' if encoder else 'out'} one"
            )
        if encoder is not None:
            model = joint(model, opened_encoder(encoder))
        set_weights(model, arrays)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise MogError(f"chunker {weights}: expected the weights of a chunker ({reason}): run `mog run`") from error
    return Scorer(arrays, facts), model.to(device())


def stored(scorer: Scorer) -> bytes:
    """A safetensors file that says itself what it is; equal scorers give equal bytes."""
    return encode({name: np.ascontiguousarray(a) for name, a in scorer.weights.items()}, scorer.facts)


def spans_of(text: str, finest_chars: int, vectors: np.ndarray | None, scorer: Scorer, model: Any) -> Spans:
    """Spans of a text; no chunk is longer than twice `finest_chars`.

    Args:
        text: Any text.
        finest_chars: Mean length that the penalty was chosen for, on the documents that the scorer was trained on.
        vectors: Unit vectors of the text's units of at most `unit_chars` characters, float of shape (units, size);
            None for a network that reads the text.
        scorer: Trained for `finest_chars`.
        model: Its network.

    References: SYSTEMS.md, section 3: "A sentence longer than the window is forced to be a chunk of its own." It is a
    unit, or several where it is longer than a chunk may be.
    """
    ends = units(text, unit_chars(finest_chars))
    if vectors is not None and len(vectors) != len(ends):
        raise ValueError(f"vectors must have a row for each of the {len(ends)} units of the text, got {len(vectors)}")
    found = windows(text, ends, vectors, unit_chars(finest_chars), model.tokenizer)
    cost = costs(scores(model, found, vectors), found.possible, scorer.facts["objective"])
    taken = least(cost, scorer.facts["penalty"])
    return spans_to(ends[np.asarray(taken, np.int64) - 1] if taken else [])
