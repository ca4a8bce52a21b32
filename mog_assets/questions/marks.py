"""How much of a reference answer an answer has.

References: Rajpurkar et al. 2016 (SQuAD), section 6.1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Return an answer in lower case without punctuation, articles and extra white space, like SQuAD's scorer."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """Return 1 if an answer equals one of the gold answers after `normalised`, else 0."""
    return float(normalised(answer) in {normalised(text) for text in gold})


def f1(answer: str, gold: Sequence[str]) -> float:
    """Return the best F1 (harmonic mean of precision and recall) of an answer's words over the gold answers."""

    def one(other: str) -> float:
        words, wanted = normalised(answer).split(), normalised(other).split()
        common = sum((Counter(words) & Counter(wanted)).values())
        if not words or not wanted:
            return float(words == wanted)
        return 2 * common / (len(words) + len(wanted))

    return max(map(one, gold), default=0.0)
