"""Answering stage: readers that play the roles, and the ways of answering that call them."""
