"""Dagster assets that build retrieval with a granularity chosen per query from document collections."""

__version__ = "0.1.0"
