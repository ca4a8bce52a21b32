"""The section `chunker` of `mog.yaml`, with the training of the learned chunker."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mog_assets import registry
from mog_assets.config import ChunkerSettings, Section, Settings
from mog_assets.papers.mix_of_granularity.settings import Rate, Width
from mog_assets.resources.settings import Count, SettingsModel

LEARNED = "learned"


class ChunkerTraining(SettingsModel):
    """Training of the learned chunker, on the training questions that have evidence in documents.

    It learns the cost of every possible chunk from sentence vectors. Documents are added until they have `spans`
    possible chunks. A share `validation` of them decides when to stop: after `patience` epochs without fewer tokens to
    answer.
    """

    width: Width = 64
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    learning_rate: Rate = 1e-3
    batch_size: Count = 128
    epochs: Count = 20
    patience: Count = 5
    validation: float = Field(0.15, gt=0, lt=1)
    spans: Count = 60_000


class LearnedChunkerSettings(ChunkerSettings):
    """Splitting of texts into level-1 chunks: by a registered chunker, with target length `finest_chars`.

    `fixed` counts `tokens` (words and punctuation marks) instead of characters if that is set. `training` is that of
    `learned`.
    """

    training: ChunkerTraining = ChunkerTraining()


def _check(settings: Settings) -> None:
    if settings.chunker.name == LEARNED:
        settings.check_trains("chunker.name", LEARNED, "chunker")


CHUNKER = Section("chunker", LearnedChunkerSettings, LearnedChunkerSettings(), check=_check)
registry.SECTIONS.register(CHUNKER.name, CHUNKER)
