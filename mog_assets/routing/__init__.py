"""Soft labels and the router trained on them."""
