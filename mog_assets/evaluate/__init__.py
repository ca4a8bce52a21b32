"""Runs of every method, measures, significance and the report."""
