"""How much of the language of the texts an encoder knows, by how its tokenizer cuts their words.

A tokenizer has the frequent words of the languages that its model was trained on as one token each; words of others it
cuts into pieces of a few letters, or does not know at all. So the share of the frequent terms of a collection that are
one token tells, without a question, how much its vectors can be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mog_assets.retrieval.bm25 import Statistics

# The most frequent terms that are looked at.
TERMS = 2000


def known_share(statistics: Statistics, is_token: Callable[[Sequence[str]], np.ndarray]) -> float:
    """Share of the occurrences of frequent terms that the encoder's vocabulary has as one token, from 0 to 1.

    Args:
        statistics: Of the texts of one kind. Terms are stems, which costs English some of them.
        is_token: Tells of some terms whether each is one token, bool of shape (terms,).

    Returns:
        1 if no text has a term with a letter.
    """
    terms, counts = statistics.most_frequent(2 * TERMS)
    rows = [row for row, term in enumerate(terms) if any(map(str.isalpha, term))][:TERMS]
    if not rows:
        return 1.0
    weights = counts[rows].astype(np.float64)
    return float(weights @ is_token([terms[row] for row in rows]) / weights.sum())
