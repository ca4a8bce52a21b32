"""The papers' experiments: each an asset, made when it is asked for, with figures and what became of each claim."""
