"""The embedded encoder for a question, without torch: importing that takes longer than answering.

Vectors are those of `bert.Bert` to 1e-3: weights are float32 here, whatever their precision there. References: Devlin
et al. 2019.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np


class QuestionBert:
    """The network of a folder with config.json and model.safetensors.

    Attributes:
        positions: Most tokens of a text.
        size: Of a hidden state.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        config = json.loads((folder / "config.json").read_bytes())
        self.positions: int = config["max_position_embeddings"]
        self.size: int = config["hidden_size"]
        self._layers, self._heads = config["num_hidden_layers"], config["num_attention_heads"]
        self._epsilon = config["layer_norm_eps"]

    @cached_property
    def _weights(self) -> dict[str, np.ndarray]:
        from safetensors.numpy import load_file

        return load_file(self._folder / "model.safetensors")

    def hidden(self, tokens: Sequence[int]) -> np.ndarray:
        """Return hidden states of the last layer for a text, float32 of shape (tokens, size)."""
        table = "embeddings.{}_embeddings.weight"
        x = self._weights[table.format("word")][np.asarray(tokens)] + self._weights[table.format("token_type")][0]
        x = self._norm("embeddings", x + self._weights[table.format("position")][: len(tokens)])
        for number in range(self._layers):
            x = self._layer(f"encoder.layer.{number}", x)
        return x

    def _layer(self, name: str, x: np.ndarray) -> np.ndarray:
        shape = (len(x), self._heads, -1)
        query, key, value = (
            self._linear(f"{name}.attention.self.{part}", x).reshape(shape).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2]))
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        attended = ((scores / scores.sum(axis=2, keepdims=True)) @ value).transpose(1, 0, 2).reshape(len(x), -1)
        x = self._norm(f"{name}.attention.output", x + self._linear(f"{name}.attention.output.dense", attended))
        wide = _gelu(self._linear(f"{name}.intermediate.dense", x))
        return self._norm(f"{name}.output", x + self._linear(f"{name}.output.dense", wide))

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        x = x - x.mean(axis=1, keepdims=True)
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + self._epsilon) * weight + bias


def _gelu(x: np.ndarray) -> np.ndarray:
    """Return x · Φ(x) to 2e-7, without an import of scipy (Abramowitz and Stegun 1964, 7.1.26)."""
    size = np.abs(x) / np.float32(np.sqrt(2))
    t, power = 1 / (1 + np.float32(0.3275911) * size), np.float32(0)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        power = (power + np.float32(factor)) * t
    error = np.sign(x) * (1 - power * np.exp(-size * size))
    return x * np.float32(0.5) * (1 + error)
