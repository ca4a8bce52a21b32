"""Rerankers: the section `reranker`, what they read, and what every one of them does."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from mog_assets import registry
from mog_assets.config import RankingSettings, Section, Settings
from mog_assets.plugins.models.served_settings import ServedSettings
from mog_assets.resources.settings import Count, NamedSettings, model_source


class RerankEndpointSettings(ServedSettings):
    """A rerank endpoint, in the form of `jina` (also vLLM) or of another provider.

    The key is read from JINA_API_KEY, or the variable of that provider; a `url` of your own needs none.
    """

    main: ClassVar[str] = "form"

    form: Annotated[str, AfterValidator(registry.RERANKER_FORMS.check)] = "jina"


class RerankerSettings(NamedSettings):
    """A model that reads a question with each of the texts of its best `pieces` pieces.

    A Hugging Face id or a local folder of a cross-encoder; with an `endpoint`, a model that is served elsewhere. Of
    question and text together `max_length` tokens are read.
    """

    main: ClassVar[str] = "model"

    endpoint: RerankEndpointSettings | None = None
    model: Annotated[str, Field(min_length=1)]
    pieces: Annotated[int, Field(ge=1, le=1000)] = 20
    device: Literal["auto", "cpu", "cuda"] = "auto"
    max_length: Count = 512

    @field_validator("model")
    @classmethod
    def _placed(cls, model: str, info: ValidationInfo) -> str:
        # A path on the machine of an endpoint is none of this one.
        return model if info.data.get("endpoint") else model_source(model, info)


@dataclass(frozen=True)
class RerankRequest:
    """A question with texts that may answer it."""

    question: str
    texts: Sequence[str]


class RerankModel(Protocol):
    """A model that reads a question together with texts, and scores them."""

    @property
    def fingerprint(self) -> str:
        """Changes with everything that changes a score."""

    @property
    def description(self) -> str:
        """Return where and how it reads, for people."""

    def scores(self, readings: Sequence[RerankRequest]) -> Generator[tuple[int, np.ndarray]]:
        """Yield the number of a reading with the scores of its texts, float32 in [0, 1], in any order."""


EXPERT = "reranker"


def _as_expert(values: dict[str, Any]) -> Mapping[str, Any]:
    """Make an expert of a reranker whose model is named."""
    ranking = values.get("ranking") or {}
    if values.get("reranker") is None or not isinstance(ranking, Mapping):
        return values
    experts = ranking.get("experts", RankingSettings().experts)
    if not isinstance(experts, list) or EXPERT in experts:
        return values
    return {**values, "ranking": {**ranking, "experts": [*experts, EXPERT]}}


def _check(settings: Settings) -> None:
    if EXPERT in settings.ranking.experts and RERANKER.of(settings) is None:
        expected = "the section `reranker`, which names the model"
        raise ValueError(f"ranking.experts: expected {expected}, got none: add it")


# None: no texts are read together with questions.
RERANKER: Section[RerankerSettings | None] = Section(
    "reranker", RerankerSettings | None, None, prepare=_as_expert, check=_check
)
registry.SECTIONS.register("reranker", RERANKER)
