"""Rooms for published systems: methods, assets and experiments of each. Nothing else of the package imports them."""
