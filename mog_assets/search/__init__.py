"""Experts, candidates and the rankings made from them; the choice between rankings; passages."""
