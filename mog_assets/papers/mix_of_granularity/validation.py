"""Which questions decide when training stops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.questions.sets import fraction
from mog_assets.resources.errors import TooFewQuestions


def validation_rows(groups: Sequence[str], share: float, what: str) -> np.ndarray:
    """Return rows whose group's hash is in the lowest `share`: a group keeps its part when others are added.

    Args:
        groups: Group of each of n questions, such as its document.
        share: Of the groups, in (0, 1); if hashes leave a part empty, a tenth of the groups.
        what: What is trained, for the message.

    Returns:
        bool array of shape (n,).

    Raises:
        TooFewQuestions: all questions are in one group.
    """
    place = {group: fraction(group) for group in set(groups)}
    chosen = {group for group, p in place.items() if p < share}
    if not 0 < len(chosen) < len(place):
        if len(place) < 2:
            raise TooFewQuestions(
                f"{what}: expected training questions on at least 2 documents, so that some can be kept for "
                f"validation, got {len(place)}; add questions to the train splits of the question set"
            )
        chosen = set(sorted(place, key=lambda g: (place[g], g))[-max(1, len(place) // 10) :])
    return np.array([group in chosen for group in groups])
