"""The section `topics` of `mog.yaml`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mog_assets import registry
from mog_assets.config import Section
from mog_assets.resources.settings import Count, SettingsModel


class TopicSettings(SettingsModel):
    """BERTopic over the chunks of level 2, or of level 1 if it is the only one.

    It is fitted on at most `sample` chunks, and fitted again when more than `refit_share` of all chunks are new since
    then. A topic has at least `min_topic_size` chunks of the sample. A vector is an outlier if it is farther from its
    topic than all but the share `outlier_quantile` of the vectors that formed the topic.
    """

    min_topic_size: Annotated[int, Field(ge=2)] = 10
    sample: Count = 20_000
    refit_share: float = Field(0.2, ge=0, le=1)
    outlier_quantile: float = Field(0.05, ge=0, lt=1)


TOPICS = Section("topics", TopicSettings, TopicSettings())
registry.SECTIONS.register("topics", TOPICS)
