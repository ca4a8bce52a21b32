"""The papers' experiments: on-demand assets with figures and a verdict on each claim."""
