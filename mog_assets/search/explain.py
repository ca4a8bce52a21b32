"""Why a piece stands where it does, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from mog_assets.resources.arrays import pairs
from mog_assets.search import answer_places, features, mix
from mog_assets.search.candidates import Candidates, Inputs
from mog_assets.search.exact import LITERAL, latest
from mog_assets.search.experts import EXPERTS
from mog_assets.search.methods import Method
from mog_assets.search.models import Mix, Weighed
from mog_assets.search.passages import Passages, pieces_in
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.router import DOCUMENT
from mog_assets.search.rule import of_texts

# Reasons given for a piece.
MOST = 3
# Said of a known item.
KNOWN, TITLED = "few others have these words", "its title is in the question"
EXACTLY = "it has this as it is typed"
# Why a passage is there that a question finds only together with its best piece.
FOLLOWED = "the question together with its best passage"
_EXPERT = re.compile(r"(?:score|z|rank in document|rank) (?P<expert>.+)")
_BESIDE = re.compile(r".+ (?:before|after)")
_PLACES = ("number in document", "number from the end", "relative place", "pieces of document", "characters", "corpus")


def reasons(
    model: Weighed | Mix,
    inputs: Inputs,
    scores: np.ndarray,
    rows: np.ndarray,
    experts: Sequence[str],
    finest: Sequence[str],
) -> list[str]:
    """Return what raised the scores of some candidates most, strongest first, in words.

    Args:
        model: That of the ranking.
        inputs: The questions.
        scores: Of their candidates, by the model.
        rows: Those whose reasons are wanted.
        experts: Names of the experts.
        finest: Those that score pieces themselves.

    Returns:
        A text for each row, such as `dense level 1 (2nd of 87), beginning of its document (piece 1 of 12)`.
    """
    if not len(rows):
        return []
    candidates = inputs.candidates
    if isinstance(model, Mix):
        names = features.names(experts, finest)
        parts = mix.contributions(model.booster, model.features(inputs)[rows])
        groups = [_group(name) for name in names]
    else:
        parts = model.parts(inputs, rows)
        groups = [*experts, DOCUMENT][: parts.shape[1]]
    distinct = list(dict.fromkeys(groups))
    sums = np.stack([parts[:, [g == group for g in groups]].sum(axis=1) for group in distinct], axis=1)
    sentences, is_boosted, leads = [], np.isfinite(latest(candidates, scores)), _leading(candidates, scores)
    for row, shares in zip(rows.tolist(), sums, strict=True):
        causes = [_reason(group, candidates, row, experts) for group in _strongest(distinct, shares, leads[row])]
        if is_boosted[row]:
            rare = candidates.rare[row]
            causes.insert(0, EXACTLY if 0 < rare <= LITERAL else KNOWN if rare or not candidates.title[row] else TITLED)
        sentences.append(", ".join(causes))
    return sentences


def _leading(candidates: Candidates, scores: np.ndarray) -> np.ndarray:
    """Return which candidates are the best of their document for the question, bool of shape (n,)."""
    documents = pairs(candidates.question, candidates.piece - candidates.place[:, 0])
    first = np.flatnonzero(np.diff(documents, prepend=-1))
    best = np.maximum.reduceat(scores, first) if len(first) else scores
    return np.asarray(scores == np.repeat(best, np.diff(np.append(first, len(scores)))))


def _strongest(groups: Sequence[str], shares: np.ndarray, leads: bool) -> list[str]:
    """Return what gave a candidate most, strongest first, at most `MOST`.

    Of retrievers at levels only two are said where something else gave half as much as the second: they are alike. How
    good the best text of a document is, is no news of that text itself.

    Args:
        groups: What gives.
        shares: What each gives.
        leads: Whether the candidate is the best of its document.
    """
    order = [i for i in np.argsort(-shares, kind="stable") if shares[i] > 0 and not (leads and groups[i] == DOCUMENT)]
    texts = of_texts(groups)
    others = [i for i in order if not texts[i]]
    if len(order) > 1 and others and shares[others[0]] * 2 >= shares[order[1]] and others[0] not in order[:MOST]:
        order = [*order[: MOST - 1], others[0]]
    return [groups[i] for i in order[:MOST]]


def _group(name: str) -> str:
    if match := _EXPERT.fullmatch(name):
        return match["expert"]
    if _BESIDE.fullmatch(name):
        return "beside"
    return "place" if name in _PLACES else "answers" if name in answer_places.NAMES else "question"


def _reason(group: str, candidates: Candidates, row: int, experts: Sequence[str]) -> str:
    if group == "beside":
        return "the text before or after it"
    if group == "question":
        return "the kind of question"
    if group == DOCUMENT:
        return "the best text of its document"
    if group == "answers":
        return "answers to such questions stand at this place"
    if group == "place":
        number, pieces = candidates.place[row, :2].tolist()
        return f"its place (piece {number + 1} of {pieces} of its document)"
    if group in EXPERTS and EXPERTS[group].reason:
        return EXPERTS[group].reason
    scores = candidates.scores[
        candidates.offsets[candidates.question[row]] : candidates.offsets[candidates.question[row] + 1]
    ]
    column = scores[:, experts.index(group)]
    rank = 1 + int((column > candidates.scores[row, experts.index(group)]).sum())
    name = "title of its document" if group == "title" else group.replace("-", " level ")
    return f"{name} ({_ordinal(rank)} of {len(column)})"


def _ordinal(number: int) -> str:
    end = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{end}"


def reasons_of(retrieval: Retrieval, method: Method, passages: Passages) -> list[str]:
    """Return what raised the score of the best piece of each passage of a ranking most."""
    candidates, scores, rows = retrieval.candidates_for(method).candidates, retrieval.scores(method), []
    first, last = pieces_in(retrieval.corpora.layout, passages.document, passages.start, passages.end)
    for question, begin, end in zip(passages.question.tolist(), first.tolist(), last.tolist(), strict=True):
        start, stop = candidates.offsets[question : question + 2]
        low, high = start + np.searchsorted(candidates.piece[start:stop], [begin, end])
        # `multihop` also returns what the question alone does not find.
        rows.append(low + int(np.argmax(scores[low:high])) if low < high else -1)
    names, positions = retrieval.index.experts, np.array(rows, np.int64)
    best = [names[0], names[retrieval.index.levels]]
    scored = positions[positions >= 0]
    why = iter(reasons(retrieval.model(method), retrieval.candidates_for(method), scores, scored, names, best))
    return [next(why) if row >= 0 else FOLLOWED for row in rows]


def shares(retrieval: Retrieval, method: Method) -> np.ndarray | None:
    """Return the share of each expert in the weight of all, shape (questions, experts); None if none is weighed."""
    model = retrieval.model(method)
    if not hasattr(model, "weights"):
        return None
    weights = model.weights(retrieval.candidates_for(method))
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9))


def expert_shares(retrieval: Retrieval, method: Method) -> list[dict[str, float] | None]:
    """Return for each question the `shares` of experts by name, if the ranking weighs them."""
    if (rows := shares(retrieval, method)) is None:
        return [None] * len(retrieval.queries)
    names = retrieval.index.experts
    return [{name: float(share) for name, share in zip(names, row, strict=True) if share > 0} for row in rows]
