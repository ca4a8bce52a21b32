"""Find a quote that was changed: candidates by words it shares with the documents, then an alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from mog_assets.questions.folding import Folded
from mog_assets.questions.quote_index import QuoteIndex, Scope, as_bytes, spread

SHORTEST, LONGEST = 24, 50_000
"""Folded characters of quotes that are searched this way. Time grows with the square of the length."""
THRESHOLD = 0.85
"""Least similarity of a place."""
# Folded characters that a word and what follows it must share with a document to count as a vote.
_LEAST = 6
_ANCHORS, _HITS, _CANDIDATES = 128, 8_192, 12
# A word that is more frequent says little about the place.
_FREQUENT = 512
# Of the most votes a candidate has; those that a copy with other words has are fewer.
_VOTES = 0.5
# Folded characters by which the end of a damaged place is moved to the end of a word.
_SNAP = 3


@dataclass(frozen=True)
class Similar:
    """A place with a similarity in [0, 1] to the quote: folded positions start … end − 1."""

    start: int
    end: int
    score: float


def similar_places(quote: Folded, index: QuoteIndex, scope: Scope) -> list[Similar]:
    """Places that are similar to a quote, best first; those below THRESHOLD too, so that a message can name them."""
    data = as_bytes(quote.codes)
    text = data.tobytes().decode("latin-1")
    found: dict[tuple[int, int], Similar] = {}
    for low, high, hit in _candidates(data, quote.starts, index, scope):
        number = index.document(hit)
        first, last = int(index.first[number]), int(index.first[number + 1]) - 1
        window = max(low, first), min(high, last)
        if place := _aligned(text, window, (first, last), index):
            found.setdefault((place.start, place.end), place)
    return sorted(found.values(), key=lambda place: (-place.score, place.start))


def _candidates(data: np.ndarray, starts: np.ndarray, index: QuoteIndex, scope: Scope) -> list[tuple[int, int, int]]:
    """The places that share most words with the quote: folded positions from … to, and that of a word they share."""
    anchors = np.flatnonzero(starts)
    anchors = spread(anchors[anchors <= len(data) - _LEAST], _ANCHORS)
    if not len(anchors):
        return []
    first, last = index.lookup(data, anchors)
    hits = last - first
    places, diagonals, total = list[np.ndarray](), list[np.ndarray](), 0
    for i in np.argsort(hits, kind="stable").tolist():
        if not hits[i]:
            continue
        if total and (hits[i] > _FREQUENT or total + hits[i] > _HITS):
            break
        its = scope.of(index.places(first[i], last[i]))[:_HITS]
        places.append(its)
        diagonals.append(its - anchors[i])
        total += len(its)
    if not total:
        return []
    at, shift = np.concatenate(places), np.concatenate(diagonals)
    order = np.argsort(shift, kind="stable")
    at, shift = at[order], shift[order]
    # What was left out or put in moves the rest of the quote.
    width = max(16, len(data) // 8)
    ends = np.searchsorted(shift, shift + width, "right")
    votes = ends - np.arange(len(ends))
    pad = 8 + len(data) // 50
    chosen: list[tuple[int, int, int]] = []
    best = int(votes.max())
    for i in np.argsort(-votes, kind="stable").tolist():
        if len(chosen) == _CANDIDATES or votes[i] < _VOTES * best:
            break
        low, high = int(shift[i]) - pad, int(shift[ends[i] - 1]) + len(data) + pad
        if all(abs(low - other) > width for other, _, _ in chosen):
            chosen.append((low, high, int(at[(i + ends[i] - 1) // 2])))
    return chosen


def _aligned(quote: str, window: tuple[int, int], document: tuple[int, int], index: QuoteIndex) -> Similar | None:
    """The part of a window that was quoted.

    The alignment's blocks of equal characters are joined where that gains more than the characters between them cost.
    What the quote has before the first and after the last block was changed: the place grows by as many characters,
    and to the nearest word from there.
    """
    text = index.folded[window[0] : window[1]].decode("latin-1")
    blocks = [
        (op.src_start, op.src_end, op.dest_start, op.dest_end)
        for op in Levenshtein.opcodes(quote, text)
        if op.tag == "equal"
    ]
    best = gain = 0
    first = here = -1
    chosen = (0, -1)
    for i, (a, b, c, _) in enumerate(blocks):
        cost = max(a - blocks[i - 1][1], c - blocks[i - 1][3]) if i else 0
        if here < 0 or gain < cost:
            gain, here = 0, i
        else:
            gain -= cost
        gain += b - a
        if gain > best:
            best, first = gain, here
            chosen = (first, i)
    if not best:
        return None
    head, tail = blocks[chosen[0]], blocks[chosen[1]]
    start = _snapped(window[0] + head[2], -head[0], document, index)
    end = _snapped(window[0] + tail[3], len(quote) - tail[1], document, index)
    place = index.folded[start:end].decode("latin-1")
    return Similar(start, end, Levenshtein.normalized_similarity(quote, place))


def _snapped(position: int, missing: int, document: tuple[int, int], index: QuoteIndex) -> int:
    """The end of a place, moved by the characters that are missing and then to a word."""
    if not missing:
        return position
    target = min(max(position + missing, document[0]), document[1])
    for distance in range(_SNAP + 1):
        for moved in (target - distance, target + distance):
            if document[0] <= moved <= document[1] and index.begins_word(moved):
                return moved
    return target


def context_similarity(wanted: tuple[str, str], start: int, end: int, index: QuoteIndex) -> float:
    """How similar the text around a place is to a prefix and a suffix, folded as `as_bytes` does; in [0, 1]."""
    number = index.document(start)
    first, last = int(index.first[number]), int(index.first[number + 1]) - 1
    prefix, suffix = wanted
    before = index.folded[max(first, start - len(prefix)) : start].decode("latin-1")
    after = index.folded[end : min(last, end + len(suffix))].decode("latin-1")
    parts = [fuzz.ratio(a, b) / 100 for a, b in ((prefix, before), (suffix, after)) if a]
    return sum(parts) / len(parts) if parts else 0.0
