"""The section `experiments` of `mog.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from mog_assets import registry
from mog_assets.config import Section
from mog_assets.config.sections import Name
from mog_assets.resources.encoder_settings import EncoderSettings, with_keys
from mog_assets.resources.settings import Count, ModelName, SettingsModel


class RetrieverEncoderSettings(EncoderSettings):
    """The encoder of a retriever that experiments compare: it encodes every chunk as one text, as the papers do.

    `query_model` encodes questions if they need a separate model, as with MedCPT.
    """

    unidentified: ClassVar[frozenset[str]] = EncoderSettings.unidentified | {"levels", "query_model"}

    levels: Literal["pooled", "direct"] = "direct"
    query_model: ModelName | None = None

    @property
    def of_questions(self) -> RetrieverEncoderSettings:
        """Settings of the encoder of questions."""
        return self.model_copy(update={"model": self.query_model or self.model, "query_model": None})


if TYPE_CHECKING:
    _Encoder = RetrieverEncoderSettings
else:
    _Encoder = with_keys(RetrieverEncoderSettings)


class ExperimentSettings(SettingsModel):
    """Settings of the papers' experiments (`mog experiment`).

    `encoders` are further retrievers by name: BM25 is fused with the first of them (RRF-2) and with the first three
    (RRF-4); they encode every level unless `levels` is set. Experiments that answer questions use at most `questions`
    of each question set. Positions are percentiles of the context.
    """

    k_r: list[Count] = Field([3, 8, 16, 32], min_length=1)
    label_methods: list[Literal["embedding", "tfidf", "hitrate"]] = Field(
        ["embedding", "tfidf", "hitrate"], min_length=1
    )
    label_values: list[tuple[float, float]] = Field([(0.8, 0.2), (0.7, 0.3)], min_length=2)
    encoders: dict[Name, _Encoder] = {}
    top_k: list[Count] = Field([8, 16], min_length=1)
    positions: list[Annotated[int, Field(ge=0, le=100)]] = Field([0, 25, 50, 75, 100], min_length=1)
    documents: list[Count] = Field([1, 2, 4, 8, 16], min_length=2)
    questions: Count | None = None
    repeats: Count = 3


def _encoders(settings: ExperimentSettings) -> Iterator[EncoderSettings]:
    for encoder in settings.encoders.values():
        yield from (encoder, encoder.of_questions)


EXPERIMENT_SETTINGS = Section("experiments", ExperimentSettings, ExperimentSettings(), encoders=_encoders, scored=False)
registry.SECTIONS.register("experiments", EXPERIMENT_SETTINGS)
