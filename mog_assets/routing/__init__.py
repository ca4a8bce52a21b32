"""Soft labels and the router that is trained on them."""
