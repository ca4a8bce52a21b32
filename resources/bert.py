"""The embedded encoder's network, using only torch.

`transformers` gives the same vectors to the bit (the tests compare them), but importing it takes longer than answering
a question. Any other model is loaded by `transformers`.

References: Devlin et al. 2019.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor
from torch.nn import functional as f


@dataclass(frozen=True)
class Output:
    """Output of the network: float tensor of shape (texts, tokens, size)."""

    last_hidden_state: Tensor


class Bert:
    """A BERT encoder in evaluation mode, called like a `transformers` model.

    Args:
        folder: Folder with config.json and model.safetensors.
        dtype: Of the weights.
        device: Of the weights.
    """

    def __init__(self, folder: Path, dtype: Any, device: str) -> None:
        from safetensors.torch import load_file

        self.config = SimpleNamespace(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
        self.weights = {
            name: weight.to(device, dtype if weight.is_floating_point() else None)
            for name, weight in load_file(folder / "model.safetensors").items()
        }

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, added: Tensor | None = None) -> Output:
        """Return hidden states of the last layer.

        Args:
            input_ids: Tokens, int64 of shape (texts, tokens).
            attention_mask: 1 for a token, 0 for padding, of the same shape.
            added: What is added to the embeddings of the tokens, of shape (texts, tokens, size).
        """
        length = input_ids.shape[1]
        # Without padding there is no mask, as in transformers: attention without a mask uses another kernel.
        mask = None if bool(attention_mask.all()) else attention_mask.bool()[:, None, None, :].expand(-1, 1, length, -1)
        (hidden,) = self._encoded([self._embedded(input_ids, added)], mask)
        return Output(hidden)

    def alone(self, texts: Sequence[Tensor]) -> list[Tensor]:
        """Return hidden states of texts of any lengths, to the bit those of each by itself.

        All go through a part of a layer before the next part: its weights are read from memory once, and not for each
        text. Of short ones twice as many are encoded so.

        Args:
            texts: Tokens of each, int64 of shape (1, tokens).
        """
        return self._encoded([self._embedded(tokens, None) for tokens in texts], None)

    def _embedded(self, input_ids: Tensor, added: Tensor | None) -> Tensor:
        table = "embeddings.{}_embeddings.weight"
        hidden = self._words(input_ids) + self.weights[table.format("token_type")][0]
        hidden = hidden + self.weights[table.format("position")][: input_ids.shape[1]]
        return self._norm("embeddings", hidden if added is None else hidden + added)

    def _encoded(self, hidden: list[Tensor], mask: Tensor | None) -> list[Tensor]:
        for layer in range(self.config.num_hidden_layers):
            hidden = self._layer(f"encoder.layer.{layer}", hidden, mask)
        return hidden

    def _words(self, input_ids: Tensor) -> Tensor:
        return f.embedding(input_ids, self.weights["embeddings.word_embeddings.weight"])

    def _layer(self, name: str, hidden: list[Tensor], mask: Tensor | None) -> list[Tensor]:
        query, key, value = (
            [self._linear(f"{name}.attention.self.{part}", x) for x in hidden] for part in ("query", "key", "value")
        )
        attended = [self._attended(q, k, v, mask) for q, k, v in zip(query, key, value, strict=True)]
        attended = [self._linear(f"{name}.attention.output.dense", x) for x in attended]
        hidden = [self._norm(f"{name}.attention.output", x + y) for x, y in zip(attended, hidden, strict=True)]
        wide = [f.gelu(self._linear(f"{name}.intermediate.dense", x)) for x in hidden]
        wide = [self._linear(f"{name}.output.dense", x) for x in wide]
        return [self._norm(f"{name}.output", x + y) for x, y in zip(wide, hidden, strict=True)]

    def _attended(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        heads = (*query.shape[:2], self.config.num_attention_heads, -1)
        query, key, value = (x.view(heads).transpose(1, 2) for x in (query, key, value))
        return f.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return f.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = (self.weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return f.layer_norm(x, weight.shape, weight, bias, self.config.layer_norm_eps)
