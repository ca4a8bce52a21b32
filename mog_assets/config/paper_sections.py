"""The sections of mog.yaml that the papers' systems read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mog_assets.config.sections import Name, Rate, Width
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.settings import Count, SettingsModel


class RetrieverEncoderSettings(EncoderSettings):
    """The encoder of a retriever that experiments compare: it encodes every chunk as one text, as the papers do."""

    levels: Literal["pooled", "direct"] = "direct"


class GraphSettings(SettingsModel):
    """The sentence graph: nodes of one or two sentences, each linked to its `k` best matches by BM25.

    An edge needs a score of at least `threshold` times the node's score against itself. The nodes within 0 … `hops`
    hops of a node form a chunk, nearest nodes first, of at most `max_chars` characters.
    """

    sentences: Literal[1, 2] = 1
    k: Count = 3
    # The paper gives no value. This removes the weakest twelfth of the edges of musique and isolates 2 % of its nodes.
    threshold: float = Field(0.15, ge=0, le=1)
    hops: Annotated[int, Field(ge=0, le=16)] = 4
    max_chars: Count = 8000


class SoftLabelSettings(SettingsModel):
    """How the best chunk of each level is compared with the label text, and the label values of the two best levels."""

    method: Literal["embedding", "tfidf", "hitrate"] = "embedding"
    values: tuple[float, float] = (0.8, 0.2)

    @model_validator(mode="after")
    def _ordered(self) -> SoftLabelSettings:
        first, second = self.values
        if not 1 >= first > second >= 0:
            raise ValueError("two values with 1 >= first > second >= 0")
        return self


class RouterSettings(SettingsModel):
    """The multi-layer perceptron from query vector to level weights."""

    hidden: list[Width] = [256]
    learning_rate: Rate = 1e-3
    epochs: Count = 1000
    patience: Count = 20
    batch_size: Count = 256
    validation: float = Field(0.1, gt=0, lt=1)


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
    encoders: dict[Name, RetrieverEncoderSettings] = {}
    top_k: list[Count] = Field([8, 16], min_length=1)
    positions: list[Annotated[int, Field(ge=0, le=100)]] = Field([0, 25, 50, 75, 100], min_length=1)
    documents: list[Count] = Field([1, 2, 4, 8, 16], min_length=2)
    questions: Count | None = None
    repeats: Count = 3
