"""The probability that a span is right: from the reader's score, and from what question, span and passages share.

References: Platt 1999; Kamath et al. 2020 (selective question answering), section 3: a calibrator that reads more than
the score, fitted on questions of several domains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mog_assets.questions.marks import f1
from mog_assets.text.cuts import sentence_ends
from mog_assets.text.terms import terms_of

if TYPE_CHECKING:
    from mog_assets.answer.reader.spans import ReaderSpan

# F1 from which an answer counts as right, and two spans as the same answer.
RIGHT = 0.5
# Nats beyond which a score says nothing more.
_MOST = 20.0
FEATURES = ("score", "lead", "sentence", "passage")


def features(question: str, passages: Sequence[tuple[str, str]], spans: Sequence[ReaderSpan]) -> np.ndarray:
    """Return what tells right spans of all windows from wrong ones: float64 of shape (spans, features)."""
    texts = [question]
    for span in spans:
        title, text = passages[span.passage]
        texts += [sentence(text, span.start) if span.start >= 0 else title, f"{title} {text}"]
    question_terms, *terms = map(set, terms_of(texts))
    scores = np.clip([span.score for span in spans], -_MOST, _MOST)
    rows = []
    for number, span in enumerate(spans):
        others = [f1(span.text, [other.text]) < RIGHT for other in spans]
        lead = scores[number] - scores[others].max(initial=-_MOST)
        near, around = terms[2 * number : 2 * number + 2]
        rows.append((scores[number], lead, _share(question_terms, near), _share(question_terms, around)))
    return np.array(rows, np.float64).reshape(-1, len(FEATURES))


def sentence(text: str, place: int) -> str:
    """Return the sentence of a text that has a character."""
    start, end = sentence_at(text, place)
    return text[start:end]


def sentence_at(text: str, place: int) -> tuple[int, int]:
    """Return start and end of the sentence of a text that has a character, without white space."""
    ends = sentence_ends(text)
    row = int(np.searchsorted(ends, place, side="right"))
    start, end = int(ends[row - 1]) if row else 0, int(ends[row])
    sentence = text[start:end]
    return start + len(sentence) - len(sentence.lstrip()), end - len(sentence) + len(sentence.rstrip())


def _share(terms: set[str], others: set[str]) -> float:
    """Return share of terms that others have; 0 without terms."""
    return len(terms & others) / len(terms) if terms else 0.0


@dataclass(frozen=True)
class Calibration:
    """A logistic function of features.

    Attributes:
        weights: By name of the feature.
        intercept: Added to the weighted sum.
        certain: Probability from which an answer is shown; more than 1 if none is.
    """

    weights: Mapping[str, float]
    intercept: float
    certain: float

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return probabilities that spans are right, shape (n,), from their features, shape (n, features)."""
        weights = np.array([self.weights.get(name, 0.0) for name in FEATURES])
        calibrated: np.ndarray = 1 / (1 + np.exp(-np.clip(values @ weights + self.intercept, -50, 50)))
        return calibrated

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


# Before anything was measured.
BY_SCORE = Calibration({"score": 1.0}, 0.0, 2.0)
