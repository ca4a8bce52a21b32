"""Layers of perceptrons: their initial values, and what is stored of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def initial(sizes: Sequence[int], generator: Any) -> list[tuple[Any, Any]]:
    """Return weights and biases initialised like torch's Linear, but from our own generator."""
    import torch

    layers = []
    for into, out in pairwise(sizes):
        bound = into**-0.5
        weight, bias = (torch.empty(s).uniform_(-bound, bound, generator=generator) for s in ((out, into), (out,)))
        layers.append((weight.requires_grad_(), bias.requires_grad_()))
    return layers


def arrays_of(layers: Sequence[tuple[Any, Any]]) -> dict[str, np.ndarray]:
    """Return copies of weights and biases by name, such as `layer0.weight`."""
    return {
        f"layer{number}.{name}": tensor.detach().numpy().copy()
        for number, layer in enumerate(layers)
        for name, tensor in zip(("weight", "bias"), layer, strict=True)
    }
