"""Rerank endpoints in the form of Cohere, Voyage and TEI (text-embeddings-inference).

After their public references of 2026.
"""

from __future__ import annotations

from mog_assets import registry
from mog_assets.plugins.models.served_rerankers import RerankForm, documents, tokens

registry.RERANKER_FORMS.register(
    "cohere",
    RerankForm(
        "https://api.cohere.com",
        "/v2/rerank",
        "COHERE_API_KEY",
        documents,
        lambda answer: (
            answer["results"],
            int(((answer.get("meta") or {}).get("billed_units") or {}).get("search_units", 0)),
        ),
        per=1_000,
    ),
)
registry.RERANKER_FORMS.register(
    "voyage",
    RerankForm(
        "https://api.voyageai.com/v1",
        "/rerank",
        "VOYAGE_API_KEY",
        lambda model, question, texts: {**documents(model, question, texts), "truncation": True},
        lambda answer: (answer["data"], tokens(answer)),
    ),
)
registry.RERANKER_FORMS.register(
    "tei",
    RerankForm(
        "",
        "/rerank",
        "TEI_API_KEY",
        lambda model, question, texts: {"query": question, "texts": texts, "truncate": True, "raw_scores": False},
        lambda answer: (answer, 0),
        score="score",
    ),
)
