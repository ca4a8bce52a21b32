"""Recipes of artefacts, what is stale, and runs, in Dagster and from the command line."""
