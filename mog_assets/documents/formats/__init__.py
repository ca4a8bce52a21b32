"""Formats of files: what reads each, and what they share."""
