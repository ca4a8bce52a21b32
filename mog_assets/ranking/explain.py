"""Why a piece stands where it does, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from mog_assets.ranking import features, mix, places
from mog_assets.ranking.candidates import Candidates
from mog_assets.ranking.known import latest
from mog_assets.ranking.models import Asked, Mix, Router, Rules
from mog_assets.ranking.relations import EXPERTS

# Reasons given for a piece.
MOST = 3
# Said of a known item.
KNOWN, TITLED = "few others have these words", "its title is in the question"
_EXPERT = re.compile(r"(?:score|z|rank in document|rank) (?P<expert>.+)")
_BESIDE = re.compile(r".+ (?:before|after)")
_PLACES = ("number in document", "number from the end", "relative place", "pieces of document", "characters", "corpus")


def reasons(
    model: Rules | Router | Mix,
    asked: Asked,
    scores: np.ndarray,
    rows: np.ndarray,
    experts: Sequence[str],
    finest: Sequence[str],
) -> list[str]:
    """What raised the scores of some candidates most, strongest first, in words.

    Args:
        model: That of the ranking.
        asked: The questions.
        scores: Of their candidates, by the model.
        rows: Those whose reasons are wanted.
        experts: Names of the experts.
        finest: Those that score pieces themselves.

    Returns:
        A text for each row, such as `dense level 1 (2nd of 87), beginning of its document (piece 1 of 12)`.
    """
    found = asked.found
    if isinstance(model, Mix):
        names = features.names(experts, finest)
        parts = mix.contributions(model.booster, model.features(asked)[rows])
        groups = [_group(name) for name in names]
    else:
        parts, groups = model.parts(asked, rows), list(experts)
    distinct = list(dict.fromkeys(groups))
    sums = np.stack([parts[:, [g == group for g in groups]].sum(axis=1) for group in distinct], axis=1)
    told, known = [], np.isfinite(latest(found, scores)) & model.lifts
    for row, own in zip(rows.tolist(), sums, strict=True):
        order = np.argsort(-own, kind="stable")[:MOST]
        said = [_said(distinct[i], found, row, experts) for i in order if own[i] > 0]
        told.append(
            ", ".join([*([KNOWN if found.rare[row] or not found.title[row] else TITLED] if known[row] else []), *said])
        )
    return told


def _group(name: str) -> str:
    if match := _EXPERT.fullmatch(name):
        return match["expert"]
    if _BESIDE.fullmatch(name):
        return "beside"
    return "place" if name in _PLACES else "answers" if name in places.NAMES else "question"


def _said(group: str, found: Candidates, row: int, experts: Sequence[str]) -> str:
    if group == "beside":
        return "the text before or after it"
    if group == "question":
        return "the kind of question"
    if group == "answers":
        return "answers to such questions stand at this place"
    if group == "place":
        number, pieces = found.place[row, :2].tolist()
        return f"its place (piece {number + 1} of {pieces} of its document)"
    if group in EXPERTS and EXPERTS[group].said:
        return EXPERTS[group].said
    own = found.scores[found.offsets[found.question[row]] : found.offsets[found.question[row] + 1]]
    column = own[:, experts.index(group)]
    rank = 1 + int((column > found.scores[row, experts.index(group)]).sum())
    name = "title of its document" if group == "title" else group.replace("-", " level ")
    return f"{name} ({_ordinal(rank)} of {len(column)})"


def _ordinal(number: int) -> str:
    end = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{end}"
