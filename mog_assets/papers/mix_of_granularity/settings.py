"""The sections of `mog.yaml` that Mix-of-Granularity reads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mog_assets import registry
from mog_assets.config import Section
from mog_assets.resources.settings import Count, SettingsModel

# Units of one layer of a network.
Width = Annotated[int, Field(gt=0, le=65_536)]
Rate = Annotated[float, Field(gt=0, le=10)]


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
    """Comparison of the best chunk of each level with the label text, and label values of the two best levels."""

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


GRAPH = Section("graph", GraphSettings, GraphSettings())
SOFT_LABELS = Section("soft_labels", SoftLabelSettings, SoftLabelSettings())
ROUTER = Section("router", RouterSettings, RouterSettings())
for section in (GRAPH, SOFT_LABELS, ROUTER):
    registry.SECTIONS.register(section.name, section)
