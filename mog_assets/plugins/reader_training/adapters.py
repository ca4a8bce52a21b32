"""Adapters and head of the reader's network as they are trained: at the start, beside the weights, and stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as f

from mog_assets.answer.reader.network import shapes_of
from mog_assets.resources.bert import Bert


def initial(bert: Bert, generator: torch.Generator) -> dict[str, Tensor]:
    """Return what is trained, at the start: adapters that add nothing."""
    tensors = {name: torch.zeros(shape) for name, shape in shapes_of(bert.config).items()}
    for name, tensor in tensors.items():
        if name.endswith(".down"):
            tensor.uniform_(-(tensor.shape[1] ** -0.5), tensor.shape[1] ** -0.5, generator=generator)
    tensors["head.weight"].normal_(std=0.02, generator=generator)
    return tensors


class _Adapting(Bert):
    """The encoder with adapters beside its linear maps, as it is trained."""

    def __init__(self, bert: Bert, trained: Mapping[str, Tensor], dropout: float) -> None:
        self.config, self.weights = bert.config, bert.weights
        self._trained, self._dropout = trained, dropout

    def _linear(self, name: str, x: Tensor) -> Tensor:
        layer, rows = self._trained, x.flatten(0, -2)
        # Dropout between the two maps costs little: there are as few numbers as the rank.
        inner = f.dropout(f.linear(rows, layer[f"{name}.down"]), self._dropout, self._dropout > 0)
        plain = f.linear(rows, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"] + layer[f"{name}.bias"])
        return torch.addmm(plain, inner, layer[f"{name}.up"].T).view(*x.shape[:-1], -1)


def adapting(bert: Bert, trained: Mapping[str, Tensor], dropout: float = 0.0) -> Bert:
    """Return the encoder as it is trained: gradients reach what is trained only."""
    return _Adapting(bert, trained, dropout)


def arrays(trained: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return tensors as float16 arrays, as they are stored."""
    return {name: tensor.detach().to(torch.float16).numpy() for name, tensor in trained.items()}
