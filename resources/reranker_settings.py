"""Rerankers: their settings, what they read, and what every one of them does."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from pydantic import AfterValidator, Field

from mog_assets.resources.registry import RERANKER_FORMS
from mog_assets.resources.settings import Count, NamedSettings, ServedSettings


class RerankEndpointSettings(ServedSettings):
    """A rerank endpoint, in the form of `jina` (also vLLM) or of another provider.

    The key is read from JINA_API_KEY, or the variable of that provider; a `url` of your own needs none.
    """

    main: ClassVar[str] = "form"

    form: Annotated[str, AfterValidator(RERANKER_FORMS.check)] = "jina"


class RerankerSettings(NamedSettings):
    """A model that reads a question with each of the texts of its best `pieces` pieces.

    A Hugging Face id or a local folder of a cross-encoder; with an `endpoint`, a model that is served elsewhere. Of
    question and text together `max_length` tokens are read.
    """

    main: ClassVar[str] = "model"

    model: Annotated[str, Field(min_length=1)]
    endpoint: RerankEndpointSettings | None = None
    pieces: Annotated[int, Field(ge=1, le=1000)] = 20
    device: Literal["auto", "cpu", "cuda"] = "auto"
    max_length: Count = 512


@dataclass(frozen=True)
class Reading:
    """A question with texts that may answer it."""

    question: str
    texts: Sequence[str]


class Model(Protocol):
    """What reads."""

    @property
    def fingerprint(self) -> str:
        """Changes with everything that changes a score."""

    @property
    def said(self) -> str:
        """Where and how it reads, for people."""

    def scores(self, readings: Sequence[Reading]) -> Generator[tuple[int, np.ndarray]]:
        """Yield the number of a reading with the scores of its texts, float32 in [0, 1], in any order."""
