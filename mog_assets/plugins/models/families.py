"""Well-known families of encoders, as their model cards of 2026 say; the first whose pattern fits a name counts."""

from __future__ import annotations

from mog_assets import registry
from mog_assets.resources.encoder_settings import EncoderFamily

_SEARCH = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

registry.FAMILIES.register(r"e5-.*instruct", EncoderFamily(_INSTRUCT.replace("\nQuery:", "\nQuery: ")))
registry.FAMILIES.register(r"(?:^|-)e5-(?:small|base|large)", EncoderFamily("query: ", "passage: "))
registry.FAMILIES.register(r"^bge-m3", EncoderFamily(pooling="cls"))
registry.FAMILIES.register(r"^bge-(?:small|base|large)-en", EncoderFamily(_SEARCH, pooling="cls"))
registry.FAMILIES.register(r"^snowflake-arctic-embed-[mls]\S*-v2", EncoderFamily("query: ", pooling="cls"))
registry.FAMILIES.register(r"^snowflake-arctic-embed", EncoderFamily(_SEARCH, pooling="cls"))
registry.FAMILIES.register(r"^nomic-embed-text", EncoderFamily("search_query: ", "search_document: "))
registry.FAMILIES.register(r"^gte-(?:small|base|large)$", EncoderFamily())
registry.FAMILIES.register(r"^gte-", EncoderFamily(pooling="cls"))
registry.FAMILIES.register(r"^qwen3-embedding", EncoderFamily(_INSTRUCT, pooling="last"))
registry.FAMILIES.register(r"^mxbai-embed-large", EncoderFamily(_SEARCH, pooling="cls"))
