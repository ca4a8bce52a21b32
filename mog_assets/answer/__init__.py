"""Answering stage: readers that implement the roles, and the answering methods that call them."""
