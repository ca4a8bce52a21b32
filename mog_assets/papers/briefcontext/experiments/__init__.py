"""Experiments of the paper."""
