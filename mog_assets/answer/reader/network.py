"""The network of the reader: the embedded sentence encoder with small adapters and a head that points at spans.

The encoder's weights stay as they are. Beside each of its linear maps runs a map of low rank that is trained (Hu et al.
2022, LoRA, section 4.1), and two vectors tell text from question and words of the text that the question has, too (Chen
et al. 2017, DrQA, section 3.2: exact match). The head gives every token a logit as first and as last token of the
answer; the first token of the window stands for "no answer here" (Devlin et al. 2019, section 4.3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as f

from mog_assets.resources.bert import Bert

# Inner size of the adapters.
RANK = 8
# Kinds of tokens: of the question, of the text, and of the text with a word of the question.
KINDS = 3
_ADAPTED = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


def load(folder: Path, device: str = "cpu") -> Bert:
    """Return encoder, in float32, and on the CPU where it answers: that does not depend on the machine's best type."""
    return Bert(folder, torch.float32, device)


def _adapted(config: Any) -> dict[str, tuple[int, int]]:
    """Return names and shapes (out, into) of the linear maps that have an adapter."""
    size, wide = config.hidden_size, config.intermediate_size
    others = {"intermediate.dense": (wide, size), "output.dense": (size, wide)}
    return {
        f"encoder.layer.{n}.{part}": others.get(part, (size, size))
        for n in range(config.num_hidden_layers)
        for part in _ADAPTED
    }


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of what is trained, for the encoder in a folder."""
    config = SimpleNamespace(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
    return shapes_of(config)


def shapes_of(config: Any) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of what is trained, for an encoder of a configuration."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (out, into) in _adapted(config).items():
        shapes |= {f"{name}.down": (RANK, into), f"{name}.up": (out, RANK), f"{name}.bias": (out,)}
    size = config.hidden_size
    return {**shapes, "kinds": (KINDS, size), "head.weight": (2, size), "head.bias": (2,)}


def merged(bert: Bert, trained: Mapping[str, Tensor]) -> Bert:
    """Return the encoder with the adapters added to its weights: as fast as without."""
    weights = dict(bert.weights)
    for name in _adapted(bert.config):
        weights[f"{name}.weight"] = weights[f"{name}.weight"] + trained[f"{name}.up"] @ trained[f"{name}.down"]
        weights[f"{name}.bias"] = weights[f"{name}.bias"] + trained[f"{name}.bias"]
    model = Bert.__new__(Bert)
    model.config, model.weights = bert.config, weights
    return model


def logits(bert: Bert, trained: Mapping[str, Tensor], ids: Tensor, kinds: Tensor, mask: Tensor) -> Tensor:
    """Return logits of every token as first and last token of the answer, float of shape (windows, tokens, 2).

    Args:
        bert: With merged adapters, or with adapters beside its weights, as it is trained.
        trained: What was trained.
        ids: Tokens, int64 of shape (windows, tokens).
        kinds: 0 question, 1 text, 2 text with a word of the question; same shape.
        mask: 1 for a token, 0 for padding; same shape.
    """
    hidden = bert(ids, mask, f.embedding(kinds, trained["kinds"])).last_hidden_state
    return f.linear(hidden, trained["head.weight"], trained["head.bias"])


def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return arrays as float32 tensors."""
    return {name: torch.from_numpy(np.asarray(array, np.float32)) for name, array in arrays.items()}
