"""Embeddings endpoints in the form of Cohere (`POST /v2/embed`) and Voyage, after their public references of 2026."""

from __future__ import annotations

from mog_assets import registry
from mog_assets.plugins.models.embeddings import EmbeddingForm, listed
from mog_assets.plugins.models.served import Provider
from mog_assets.resources.encoder_settings import Role

_COHERE: dict[Role, str] = {"passage": "search_document", "query": "search_query"}
_VOYAGE: dict[Role, str] = {"passage": "document", "query": "query"}

registry.ENCODER_FORMS.register(
    "cohere",
    EmbeddingForm(
        Provider("https://api.cohere.com", "/v2/embed", "COHERE_API_KEY"),
        96,
        "output_dimension",
        lambda texts, role: {
            "texts": list(texts),
            "input_type": _COHERE[role],
            "embedding_types": ["float"],
            "truncate": "END",
        },
        lambda answer: (
            answer["embeddings"]["float"],
            int(((answer.get("meta") or {}).get("billed_units") or {}).get("input_tokens", 0)),
        ),
        by_role=True,
    ),
)
registry.ENCODER_FORMS.register(
    "voyage",
    EmbeddingForm(
        Provider("https://api.voyageai.com/v1", "/embeddings", "VOYAGE_API_KEY"),
        1000,
        "output_dimension",
        lambda texts, role: {"input": list(texts), "input_type": _VOYAGE[role], "truncation": True},
        listed,
        by_role=True,
    ),
)
