"""BM25 as products of sparse vectors: a point has how much each of its terms saturates, a question what terms weigh.

So statistics of terms, which change with every document, are in no point. One is left, the mean length of texts: points
have it rounded, and are written again only when a corpus' texts become longer or shorter by a fifth or so.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse

from mog_assets.plugins.qdrant.collections import Sparse

# Mean lengths are rounded to powers of this.
_STEP = 1.25


def rounded_mean(lengths: np.ndarray) -> float:
    """Return the mean of lengths of texts, as points have it."""
    mean = float(lengths.mean()) if len(lengths) else 1.0
    return float(_STEP ** round(math.log(max(mean, 1.0), _STEP)))


def term_numbers(terms: Sequence[str]) -> np.ndarray:
    """Return a number of 32 bits for each term, int64; two of a million terms share one by chance a hundred times."""
    digests = b"".join(hashlib.blake2b(term.encode(), digest_size=4).digest() for term in terms)
    return np.frombuffer(digests, "<u4").astype(np.int64)


def text_vectors(
    terms: Sequence[str], matrix: sparse.csc_matrix, lengths: np.ndarray, mean: float, k1: float, b: float
) -> Iterator[Sparse]:
    """Yield the sparse vector of each text: count / (count + k1 · (1 − b + b · length / mean)) by term.

    Args:
        terms: Of the columns.
        matrix: Counts, of shape (texts, terms).
        lengths: Tokens of each text.
        mean: Of lengths; see `rounded_mean`.
        k1: Term frequency saturation.
        b: Length normalisation.
    """
    numbers, rows = term_numbers(terms), matrix.tocsr()
    added = k1 * (1 - b + b * np.asarray(lengths, np.float64) / mean)
    for row, (first, last) in enumerate(zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)):
        times = rows.data[first:last].astype(np.float64)
        yield _combined(numbers[rows.indices[first:last]], times / (times + added[row]))


def question_vector(weights: Mapping[str, float]) -> Sparse:
    """Return the sparse vector of a question, whose terms weigh so much."""
    return _combined(term_numbers(list(weights)), np.fromiter(weights.values(), np.float64, len(weights)))


def _combined(numbers: np.ndarray, values: np.ndarray) -> Sparse:
    places, which = np.unique(numbers, return_inverse=True)
    sums = np.bincount(which, values, len(places)).astype(np.float32)
    return Sparse(places.tolist(), sums.tolist())
