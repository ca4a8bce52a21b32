"""Learned chunking: a scorer of cuts that is trained on where answers stand."""
