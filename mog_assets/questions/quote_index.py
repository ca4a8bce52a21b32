"""Find folded text in many documents, by the words that it shares with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Indel, Levenshtein

from mog_assets.questions.folding import END, SEPARATOR, Folding, fold

Name = tuple[str, str]
"""A document: corpus and id."""
Scope = tuple[int, ...] | None
"""Numbers of documents in which a quote may stand, ascending; None for all."""
MOST = 1_000
"""Places of a quote that are looked at."""
# Folded characters of them that are compared, unless they are few.
_COMPARED, _FEW = 1 << 21, 4
# Characters that are folded at once, and words from one from which a document can be folded on to the next.
_BLOCK, _STRIDE = 1 << 17, 16
# Documents that are read from end to end rather than looked up; and folded characters of a quote from which on all are,
# because comparing each place of a word with the whole quote may take the square of them.
_SCANNED, _SCANNED_QUOTE = 16, 1 << 14
# Characters by which a word and what follows it are looked up; more than one word, because a document may break a word
# where the quote does not.
_KEY, _TRIED = 8, 3
# For similar text: the fewest of these characters, words of a quote that are looked up, and places of all of them.
_LEAST, _WORDS, _HITS = 6, 128, 1 << 13
# Of the most shared words, those that a candidate has at least; a copy with other words has fewer.
_SHARE = 0.5
# Candidates, and of a long quote, so that comparing all takes no more than so many steps. If one that was left out
# shares as many words as the best, or more than so many are as similar but for _NEAR, the text stands everywhere.
_CANDIDATES, _FEWEST, _STEPS, _MOST_SIMILAR, _NEAR = 24, 3, 1 << 31, 20, 0.03
# Characters at an end of a quote by which the end of a place is chosen, and by which it may lie elsewhere.
_EDGE, _ROOM = 64, 24


class Match(NamedTuple):
    """How similar the folded positions low … high − 1 are in [0, 1], and how many words of the quote they share."""

    score: float
    low: int
    high: int
    words: int


class QuoteIndex:
    """Documents, folded and one after the other, each with an END behind it.

    Memory: two bytes for each folded character, and 16 for each word when a quote is first looked for in all of them.

    Attributes:
        texts, names, numbers: The documents, read anew each time; what they are called; and the number of each.
        first: int64 array: position of the first folded character of each document, and one more after the last.
        folded: All folded characters, as `Folding.data` gives them.
    """

    def __init__(self, documents: Mapping[Name, str]) -> None:
        """Read every document once."""
        self.texts, self.names = documents, list(documents)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        parts, starts, words, origins, position, offset = [b""], [np.zeros(0, bool)], [], [], 0, 0
        for block in self._read_blocks():
            folded = fold(block)
            its = np.flatnonzero(folded.starts & (folded.codes != SEPARATOR))[::_STRIDE]
            parts.append(folded.data)
            starts.append(folded.starts)
            words.append(its + position)
            origins.append(folded.origin[its] + offset)
            position, offset = position + len(folded.codes), offset + len(block)
        self.folded, self._starts = b"".join([*parts, bytes(_KEY)]), np.concatenate(starts)
        self._resume = np.concatenate([[0], *words]), np.concatenate([[0], *origins])
        self.first = np.concatenate([[0], np.flatnonzero(np.frombuffer(self.folded, np.uint8) == END) + 1])
        self._words = lru_cache(16)(self._sorted_words)

    def _read_blocks(self) -> Iterator[str]:
        """Read the documents, several at once because each fold takes its time; each with a NUL behind it."""
        block, size, self._begin = list[str](), 0, [0]
        for text in self.texts.values():
            block.append(text.replace("\0", " ") + "\0")
            self._begin.append(self._begin[-1] + len(block[-1]))
            size += len(text)
            if size > _BLOCK:
                yield "".join(block)
                block, size = [], 0
        yield "".join(block)

    def number(self, position: int) -> int:
        """Return the number of the document that a folded position is in."""
        return int(np.searchsorted(self.first, position, "right")) - 1

    def piece(self, low: int, high: int) -> tuple[Folding, int]:
        """Fold the part of a document that has the folded positions low … high − 1 in it.

        Returns:
            The folded part, with origins in the document's text; and the place of `low` in it.
        """
        number, (words, origins) = self.number(low), self._resume
        text, (before, after) = self.texts[self.names[number]], np.searchsorted(words, (low + 1, high)).tolist()
        here = int(words[before - 1]), int(origins[before - 1]) - self._begin[number]
        position, begin = max((int(self.first[number]), 0), here)
        until = int(origins[after]) - self._begin[number] if after < len(words) else None
        folded = fold(text[begin:until].replace("\0", " "))
        return Folding(folded.codes, folded.origin + begin, folded.starts), low - position

    def scope(self, corpus: str | None, doc: str | None) -> Scope:
        """Return the documents with this id, or of this corpus, or both."""
        return None if corpus is None and doc is None else tuple(self._scopes.get((corpus, doc), ()))

    @cached_property
    def _scopes(self) -> dict[tuple[str | None, str | None], list[int]]:
        scopes: dict[tuple[str | None, str | None], list[int]] = {}
        for number, (corpus, doc) in enumerate(self.names):
            for key in ((corpus, None), (None, doc), (corpus, doc)):
                scopes.setdefault(key, []).append(number)
        return scopes

    def _ranges(self, scope: Scope) -> list[tuple[int, int]]:
        """Return first and last + 1 of the folded positions of a scope."""
        if scope is None:
            return [(0, int(self.first[-1]))]
        return [(int(self.first[n]), int(self.first[n + 1])) for n in scope]

    def find(self, quote: Folding, scope: Scope, words: bool) -> tuple[list[int], bool]:
        """Return folded positions at which a quote stands, ascending, and whether there may be more.

        At most MOST are given, fewer of a quote of more than 2,000 characters.

        Args:
            quote: What is looked for, of one character or more.
            scope: Where it may stand.
            words: Only where it is whole words.
        """
        data, most = quote.data, min(MOST, max(_FEW, _COMPARED // len(quote.codes)))
        anchors = np.flatnonzero(quote.starts)
        few = scope is not None and len(scope) <= _SCANNED
        if few or len(data) >= _SCANNED_QUOTE or (len(anchors) == 1 and not words):
            searches = iter([self._scan(data, scope)])
        else:
            searches = self._find_by_words(quote, anchors, scope, words)
        for search in searches:
            matches = (at for at in search if not words or (self._starts[at] and self._starts[at + len(data)]))
            if positions := list(islice(matches, most + 1)):
                return positions[:most], len(positions) > most
        return [], False

    def _scan(self, data: bytes, scope: Scope) -> Iterator[int]:
        for low, high in self._ranges(scope):
            at = self.folded.find(data, low, high)
            while at >= 0:
                yield at
                at = self.folded.find(data, at + 1, high)

    def _find_by_words(self, quote: Folding, anchors: np.ndarray, scope: Scope, words: bool) -> Iterator[Iterator[int]]:
        """Yield for the rarest words of a quote where it stands with them."""
        data, anchors = quote.data, _sample(anchors)
        positions, first, last = self._lookup(quote, anchors, scope)
        # The first may be the rest of a word, which other words begin with.
        order = sorted(np.flatnonzero(first < last), key=lambda i: (i == 0 and not words, last[i] - first[i]))
        for i in order[:_TRIED]:
            starts = np.sort(positions[first[i] : last[i]], kind="stable") - anchors[i]
            yield (at for at in starts.tolist() if at >= 0 and self.folded.startswith(data, at))

    def _sorted_words(self, scope: Scope) -> tuple[np.ndarray, np.ndarray]:
        """Return the beginnings of all words as uint64, ascending, and their positions."""
        parts = [np.zeros(0, int)]
        for low, high in self._ranges(scope):
            codes = np.frombuffer(self.folded, np.uint8, high - low, low)
            parts.append(np.flatnonzero(self._starts[low:high] & (codes != SEPARATOR) & (codes != END)) + low)
        words = np.concatenate(parts)
        keys = _compute_keys(self.folded, words)
        order = np.argsort(keys, kind="stable")
        return keys[order], words[order]

    def _lookup(self, quote: Folding, anchors: np.ndarray, scope: Scope) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the sorted words, and first and last + 1 of those that begin as the quote goes on from each anchor."""
        keys, positions = self._words(scope)
        first = np.searchsorted(keys, _compute_keys(quote.data + bytes(_KEY), anchors), "left")
        return positions, first, np.searchsorted(keys, _compute_keys(quote.data + b"\xff" * _KEY, anchors), "right")

    def find_similar(self, quote: Folding, scope: Scope) -> tuple[list[Match], bool]:
        """Return places that are similar to a quote, best first, and whether others may be as similar as the best."""
        data, matches, least = quote.data, set[Match](), 0.0
        edge = min(_EDGE, len(data) // 2)
        candidates, omitted = self._find_candidates(quote, scope)
        for anchors, hits in candidates:
            words, begin = len(hits), hits - anchors
            # A title above repeats words of the first sentence.
            close = np.abs(begin - np.sort(begin)[len(begin) // 2]) <= _ROOM
            anchors, hits = anchors[close], hits[close]
            # Only what is beyond a word near each end is compared.
            head = int(np.argmax(anchors >= min(edge, anchors[-1])))
            tail = int(len(anchors) - 1 - np.argmax(anchors[::-1] <= max(len(data) - edge, anchors[0])))
            low = self._find_end(data[: anchors[head]], int(hits[head]), -1)
            high = max(low + 1, self._find_end(data[anchors[tail] :], int(hits[tail]), 1))
            # Nothing is said of what is less similar by twice _NEAR.
            score = Levenshtein.normalized_similarity(data, self.folded[low:high], score_cutoff=least)
            least = max(least, score - 2 * _NEAR)
            matches.add(Match(score, low, high, words))
        places = sorted(matches, key=lambda place: (-place.score, place.low))
        near = sum(place.score >= places[0].score - _NEAR for place in places)
        return places, bool(places) and (omitted >= places[0].words or near > _MOST_SIMILAR)

    def _find_candidates(self, quote: Folding, scope: Scope) -> tuple[list[tuple[np.ndarray, np.ndarray]], int]:
        """Return the places that share most words with a quote, and the number of words that one left out shares.

        Of each place: positions of the words in the quote, ascending, and their folded positions.
        """
        size = len(quote.codes)
        words = _sample(np.flatnonzero(quote.starts[: size - _LEAST + 1]))
        positions, first, last = self._lookup(quote, words, scope)
        counts = np.minimum(last - first, _HITS)
        order = np.argsort(counts, kind="stable")[np.count_nonzero(counts == 0) :]
        order = order[: max(1, np.searchsorted(np.cumsum(counts[order]), _HITS, "right"))]
        hits = np.concatenate([positions[:0], *(positions[first[i] : first[i] + counts[i]] for i in order)])
        anchors = np.repeat(words[order], counts[order])
        order = np.argsort(hits - anchors, kind="stable")
        hits, anchors = hits[order], anchors[order]
        begin = hits - anchors
        # What was left out or put in moves the rest of the quote.
        width = max(16, size // 8)
        votes = np.searchsorted(begin, begin + width, "right") - np.arange(len(begin))
        candidates, begins = list[tuple[np.ndarray, np.ndarray]](), list[int]()
        order = np.argsort(-votes, kind="stable")
        for i in order[votes[order] >= _SHARE * votes.max(initial=0)].tolist():
            if all(abs(begin[i] - other) > width for other in begins):
                if len(candidates) == min(_CANDIDATES, max(_FEWEST, _STEPS // size**2)):
                    return candidates, int(votes[i])
                begins.append(int(begin[i]))
                its = np.arange(i, i + votes[i])
                number = self.number(hits[its[len(its) // 2]])
                its = its[(hits[its] >= self.first[number]) & (hits[its] < self.first[number + 1])]
                its = its[np.argsort(anchors[its], kind="stable")]
                candidates.append((anchors[its], hits[its]))
        return candidates, 0

    def _find_end(self, part: bytes, hit: int, step: int) -> int:
        """Return the word from which to `hit` (`step` −1) or up to which from there (1) the text is like `part`."""
        number = self.number(hit)
        first, last = (hit + 1, int(self.first[number + 1]) - 1) if step > 0 else (int(self.first[number]), hit)
        target = min(max(first, hit + step * len(part)), last)
        least, most = max(first, target - _ROOM), min(last, target + _ROOM)
        words = (np.flatnonzero(self._starts[least : most + 1]) + least).tolist()
        # A SEPARATOR before or behind the place is not part of it.
        words = [word for word in words if self.folded[word - (step > 0)] != SEPARATOR]

        def compare(word: int) -> tuple[float, int]:
            return Indel.normalized_similarity(part, self.folded[min(hit, word) : max(hit, word)]), -abs(word - target)

        return max(words, key=compare, default=target)


def _sample(words: np.ndarray) -> np.ndarray:
    """Return at most _WORDS of the words, evenly spread, the first and the last among them."""
    return words[np.linspace(0, len(words) - 1, min(len(words), _WORDS)).astype(int)]


def _compute_keys(folded: bytes, positions: np.ndarray) -> np.ndarray:
    """Return the _KEY bytes from each position on as one uint64; they sort as the bytes do."""
    return np.ndarray(len(folded) - _KEY + 1, ">u8", folded, strides=(1,))[positions].astype(np.uint64)
