"""Find a quote that was changed: candidates by words it shares with the documents, then an alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from mog_assets.questions.folding import Folded
from mog_assets.questions.quote_index import QuoteIndex, Scope, as_bytes, spread

LONGEST = 50_000
"""Folded characters of a quote that is searched this way, and at least LONG. Time grows with the square of them."""
THRESHOLD = 0.85
"""Least similarity of a place, chosen on training questions: `benchmarks/evidence.py --threshold`."""
# Folded characters that a word and what follows it must share with a document to count as a vote.
_LEAST = 6
_ANCHORS, _HITS = 128, 1 << 15
# Places that are aligned. If one that was left out has as many words of the quote as the best, or more than so many are
# as similar but for _NEAR, the text stands everywhere.
_CANDIDATES, _MOST_SIMILAR, _NEAR = 24, 20, 0.03
# Fewer of a long quote, so that an alignment of all takes no more than so many steps.
_FEWEST, _STEPS = 3, 1 << 31
# After so many words, one that is more frequent is left out: it says little that they do not say about the place.
_ENOUGH, _FREQUENT = 12, 512
# Of the most votes a candidate has; those that a copy with other words has are fewer.
_VOTES = 0.5
# Of a character between two blocks of an alignment: at the lower one a place may have an insertion; at the higher one
# the beginning is not mistaken for the title before it, which says the same.
_PRICES = 1, 3
# Folded characters by which the end of a place is moved to a word, and such a share of what the quote has beyond it (of
# so much at most). Of that, so many characters at the end are compared.
_SNAP, _SNAP_SHARE, _SNAP_MOST = 3, 8, 256
_EDGE = 64


@dataclass(frozen=True)
class Similar:
    """A place with a similarity in [0, 1] to the quote: folded positions start … end − 1."""

    start: int
    end: int
    score: float
    votes: int


def similar_places(quote: Folded, index: QuoteIndex, scope: Scope) -> tuple[list[Similar], bool]:
    """Places that are similar to a quote, best first, and whether others may be as similar as the best.

    Those below THRESHOLD are there too, so that a message can name them.
    """
    data = as_bytes(quote.codes)
    text = data.tobytes().decode("latin-1")
    similar: dict[tuple[int, int], Similar] = {}
    candidates, left_out = _candidates(data, quote.starts, index, scope)
    for low, high, hit, votes in candidates:
        number = index.document(hit)
        first, last = int(index.first[number]), int(index.first[number + 1]) - 1
        window = max(low, first), min(high, last)
        if place := _aligned(text, window, (first, last), index):
            start, end, score = place
            similar.setdefault((start, end), Similar(start, end, score, votes))
    places = sorted(similar.values(), key=lambda place: (-place.score, place.start))
    near = sum(place.score >= places[0].score - _NEAR for place in places)
    return places, bool(places) and (left_out >= places[0].votes or near > _MOST_SIMILAR)


def _candidates(
    data: np.ndarray, starts: np.ndarray, index: QuoteIndex, scope: Scope
) -> tuple[list[tuple[int, int, int, int]], int]:
    """The places that share most words with the quote, and the most words of one that was left out.

    Of each place folded positions from … to, that of a word they share, and how many they share.
    """
    anchors = np.flatnonzero(starts)
    anchors = spread(anchors[anchors <= len(data) - _LEAST], _ANCHORS)
    if not len(anchors):
        return [], 0
    first, last = index.lookup(data, anchors)
    hits = last - first
    places, diagonals, total = list[np.ndarray](), list[np.ndarray](), 0
    for i in np.argsort(hits, kind="stable").tolist():
        if not hits[i]:
            continue
        if total and (total + hits[i] > _HITS or (len(places) >= _ENOUGH and hits[i] > _FREQUENT)):
            break
        its = scope.of(index.places(first[i], last[i]))[:_HITS]
        places.append(its)
        diagonals.append(its - anchors[i])
        total += len(its)
    if not total:
        return [], 0
    at, shift = np.concatenate(places), np.concatenate(diagonals)
    order = np.argsort(shift, kind="stable")
    at, shift = at[order], shift[order]
    # What was left out or put in moves the rest of the quote.
    width = max(16, len(data) // 8)
    ends = np.searchsorted(shift, shift + width, "right")
    votes = ends - np.arange(len(ends))
    pad = 8 + len(data) // 50
    chosen: list[tuple[int, int, int, int]] = []
    most = min(_CANDIDATES, max(_FEWEST, _STEPS // len(data) ** 2))
    best = int(votes.max())
    for i in np.argsort(-votes, kind="stable").tolist():
        if votes[i] < _VOTES * best:
            break
        low, high = int(shift[i]) - pad, int(shift[ends[i] - 1]) + len(data) + pad
        if all(abs(low - other[0]) > width for other in chosen):
            if len(chosen) == most:
                return chosen, int(votes[i])
            chosen.append((low, high, int(at[(i + ends[i] - 1) // 2]), int(votes[i])))
    return chosen, 0


def _aligned(
    quote: str, window: tuple[int, int], document: tuple[int, int], index: QuoteIndex
) -> tuple[int, int, float] | None:
    """The part of a window that was quoted: folded positions from … to, and its similarity.

    What the quote has before the first and after the last block of the alignment that counts was changed: the place
    grows by as many characters, and from there to the nearest word.
    """
    text = index.folded[window[0] : window[1]].decode("latin-1")
    blocks = [
        (op.src_start, op.src_end, op.dest_start, op.dest_end)
        for op in Levenshtein.opcodes(quote, text)
        if op.tag == "equal"
    ]
    best: tuple[int, int, float] | None = None
    for first, last in dict.fromkeys(_joined(blocks, price) for price in _PRICES) if blocks else ():
        head, tail = blocks[first], blocks[last]
        start = _word(window[0] + head[2], quote[: head[0]], -1, document, index)
        end = _word(window[0] + tail[3], quote[tail[1] :], 1, document, index)
        place = index.folded[start:end].decode("latin-1")
        score = Levenshtein.normalized_similarity(quote, place)
        if best is None or score > best[2]:
            best = start, end, score
    return best


def _joined(blocks: list[tuple[int, int, int, int]], price: int) -> tuple[int, int]:
    """First and last of the blocks of equal characters that gain most, less the price of characters between them."""
    best = gain = first = 0
    chosen = (0, 0)
    for i, (begin, end, at, _) in enumerate(blocks):
        cost = price * max(begin - blocks[i - 1][1], at - blocks[i - 1][3]) if i else 0
        if gain <= cost:
            gain, first = 0, i
        else:
            gain -= cost
        gain += end - begin
        if gain > best:
            best, chosen = gain, (first, i)
    return chosen


def _word(position: int, missing: str, step: int, document: tuple[int, int], index: QuoteIndex) -> int:
    """The end of a place: the word up to which the document is most similar to what is missing of the quote."""
    target = min(max(position + step * len(missing), document[0]), document[1])
    near = _SNAP + min(len(missing), _SNAP_MOST) // _SNAP_SHARE
    words = index.words(max(target - near, document[0]), min(target + near, document[1]))
    edge = missing[:_EDGE] if step < 0 else missing[-_EDGE:]

    def difference(moved: int) -> tuple[int, int]:
        if (moved - position) * step < 0:
            return len(edge) + abs(moved - position), abs(moved - target)
        if step < 0:
            text = index.folded[moved : min(moved + _EDGE, position)]
        else:
            text = index.folded[max(moved - _EDGE, position) : moved]
        return Levenshtein.distance(edge, text.decode("latin-1")), abs(moved - target)

    return min(words, key=difference, default=target)


def context_similarity(wanted: tuple[str, str], start: int, end: int, index: QuoteIndex) -> float:
    """How similar the text around a place is to a prefix and a suffix, folded as `as_bytes` does; in [0, 1]."""
    number = index.document(start)
    first, last = int(index.first[number]), int(index.first[number + 1]) - 1
    prefix, suffix = wanted
    before = index.folded[max(first, start - len(prefix)) : start].decode("latin-1")
    after = index.folded[end : min(last, end + len(suffix))].decode("latin-1")
    parts = [fuzz.ratio(a, b) / 100 for a, b in ((prefix, before), (suffix, after)) if a]
    return sum(parts) / len(parts) if parts else 0.0
