"""Dagster assets that turn document collections into retrieval which chooses its own granularity."""

__version__ = "0.1.0"
