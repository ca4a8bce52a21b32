"""Runs of every method, measures and significance."""
