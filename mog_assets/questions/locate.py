"""Find quotes in documents: the offsets of a text that somebody copied.

Three stages, in the named document or in those that share most words with the quote; the first that finds something
ends the search.

1. exact: the NFC of the quote stands in the text.
2. normalised: the same with case, blanks, punctuation and compatibility forms left out (`fold`). So line breaks,
   hyphens at the end of a line, soft hyphens, ligatures and curly quotation marks make no difference.
3. fuzzy: the most similar place, if it is similar enough. Text that stands in many documents with small changes is not
   located: any of them may be meant.

An ellipsis within a quote (`...`, `…`, `[...]`) stands for text that was left out, unless the document has none there.
The parts are then found one by one, each after the one before and in the same document. Each is a place of its own:
what was left out is not evidence. Of several ways to choose them in a document, the one that spans least text is taken.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby, islice
from typing import Literal, NamedTuple

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import Indel, Levenshtein
from rapidfuzz.utils import default_process

from mog_assets.resources.printable import printable
from mog_assets.text.characters import BIGRAMS, TRIGRAMS, WITHOUT_BLANKS

LONG, LONGEST = 20, 50_000
"""Folded characters from which on a quote may begin or end within a word, and may be found by similarity; and up to
which it is: time grows with the square of them."""
THRESHOLD = 0.85
"""Least similarity of a place, chosen on training questions: `benchmarks/evidence.py --threshold`."""
MOST_PLACES = 20
"""Places of a quote; one that stands more often has to be told apart."""
MOST_PARTS = 20
"""Parts of a quote with an ellipsis between them."""
# Places of a quote that are looked at, and characters of a prefix and suffix that are compared.
_LOOKED_AT, _CONTEXT = 1_000, 200
# Characters of all these places together.
_COMPARED = 1 << 21
# Documents that are searched without a look at their words. Of more, those with at least half of the weight of the
# rarest words of the quote are searched, and so many of them for similar text.
_FEW, _WORDS, _SIMILAR = 16, 32, 5
# Pieces of a quote whose places in a document show where similar text begins, and places of each; candidates.
_PIECES, _MATCHES, _CANDIDATES = 64, 64, 8
# Characters at an end of a quote by which the end of a place is chosen, and by which it may lie elsewhere.
_EDGE, _ROOM = 64, 24
# Similarity below the best at which text says nearly the same; and at which context may still choose it.
_NEAR, _CLOSE = 0.03, 0.05
# Least similarity of a place that a message names.
_NEAREST = 0.4
# Longer runs of combining characters are no text; to put them in order takes the square of their number.
_MOST_MARKS = 100
# Blanks, controls, format characters, punctuation, and symbols such as ` and ´ that serve as quotation marks; the minus
# sign; what begins a variation or joins graphemes; letters that serve as apostrophes or primes.
_IGNORED = ("Z", "Cc", "Cf", "P", "Sk")
_ALSO_IGNORED = {0x2212, 0x034F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x2B9, 0x2BE)}
_EQUIVALENT = {**dict.fromkeys(map(ord, '‘’‚‛“”„‟«»‹›`´"'), "'"), **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")}
_OMISSION = re.compile(r"\.{3,}|…")
_ELLIPSIS = re.compile(r"\[ ?(?:\.{3,}|…) ?\]|\( ?(?:\.{3,}|…) ?\)|\.{3,}|…|\. \. \.")
_BROKEN = re.compile("[-\u00ad]\\s*\n\\s*|[\u00ad\u200c\u200d\u2060\ufeff]")
_WORD = re.compile(rf"[{BIGRAMS}{TRIGRAMS}]|\d+|[^\W\d_{BIGRAMS}{TRIGRAMS}]+")

How = Literal["exact", "normalised", "fuzzy"]
Name = tuple[str, str]
"""A document: corpus and id."""


@dataclass(frozen=True)
class Quote:
    """A text that was copied from a document.

    Attributes:
        corpus: Where it stands; None if not known.
        doc: Id of the document; None if not known.
        prefix: Text just before it, to tell places apart; the last 200 characters count.
        suffix: Text just after it; the first 200 characters count.
    """

    text: str
    corpus: str | None = None
    doc: str | None = None
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True)
class Location:
    """A place of a quote: characters start … end − 1 of a document's text.

    Attributes:
        how: The stage that found it.
        score: 1 if exact or normalised; else the similarity of the folded texts in [0, 1], `THRESHOLD` or more.
    """

    corpus: str
    doc: str
    start: int
    end: int
    how: How
    score: float


@dataclass(frozen=True)
class Located:
    """The places of a quote, by document and offset.

    Attributes:
        problem: What was expected, what came, and what to do; empty if there are places.
    """

    places: tuple[Location, ...]
    problem: str = ""


class _Problem(Exception):
    """Reason why a quote has no places."""


def locate(
    quotes: Sequence[Quote],
    documents: Mapping[Name, str],
    advance: Callable[[int], object] | None = None,
) -> list[Located]:
    """Find quotes in documents.

    A quote of fewer than `LONG` folded characters is found as whole words, unless its prefix and suffix fix the place,
    and never by similarity.

    Args:
        quotes: What was copied.
        documents: Texts in NFC by corpus and id.
        advance: Called with 1 after each quote.

    Returns:
        For each quote its places, or the reason why it has none.
    """
    texts, located = _Documents(documents), []
    for quote in quotes:
        try:
            located.append(Located(tuple(_locate(quote, texts))))
        except _Problem as problem:
            located.append(Located((), str(problem)))
        if advance:
            advance(1)
    return located


class _Letters(dict[int, str]):
    """The letters and digits that each character, by code point, is compared as; `str.translate` fills it."""

    def __missing__(self, point: int) -> str:
        text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(point)).casefold())
        letters = (c for c in text if not (ord(c) in _ALSO_IGNORED or unicodedata.category(c).startswith(_IGNORED)))
        self[point] = "".join(str(unicodedata.decimal(c, c)) for c in letters)
        return self[point]


_LETTERS = _Letters()
_ASCII = np.array([bool(_LETTERS[point]) for point in range(128)])


def fold(text: str) -> str:
    """Return the characters of a text that count, without differences of case and form."""
    return text.translate(_LETTERS)


def _origins(text: str) -> np.ndarray:
    """Return the offset in a text of each character of `fold`."""
    if text.isascii():
        return np.flatnonzero(_ASCII[np.frombuffer(text.encode(), np.uint8)])
    sizes = np.fromiter((len(_LETTERS[ord(c)]) for c in text), np.int64, len(text))
    return np.repeat(np.arange(len(text)), sizes)


def _words(text: str) -> set[str]:
    """Return the folded words of a text, characters of scripts without blanks and digits by themselves."""
    words = _WORD.findall(_BROKEN.sub("", text.casefold()))
    return set(words) if text.isascii() else {fold(word) for word in set(words)}


class _Match(NamedTuple):
    """Similarity of the folded positions low … high − 1 of a document to a quote, in [0, 1]."""

    score: float
    low: int
    high: int


class _Documents:
    """Documents by number, folded when they are first looked at."""

    def __init__(self, documents: Mapping[Name, str]) -> None:
        self.names, self.texts = list(documents), list(documents.values())
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.folded = lru_cache(None)(lambda number: fold(self.texts[number]))
        self.origins = lru_cache(512)(lambda number: _origins(self.texts[number]))
        self.edges = lru_cache(512)(self._find_edges)

    def scope(self, corpus: str | None, doc: str | None) -> np.ndarray:
        """Return the documents with this id, or of this corpus, or both; all if there is neither."""
        return self._scopes.get((corpus, doc), np.zeros(0, int))

    @cached_property
    def _scopes(self) -> dict[tuple[str | None, str | None], np.ndarray]:
        scopes: dict[tuple[str | None, str | None], list[int]] = {}
        for number, (corpus, doc) in enumerate(self.names):
            for key in ((corpus, None), (None, doc), (corpus, doc), (None, None)):
                scopes.setdefault(key, []).append(number)
        return {key: np.array(numbers) for key, numbers in scopes.items()}

    @cached_property
    def _postings(self) -> dict[str, np.ndarray]:
        postings: dict[str, list[int]] = {}
        for number, text in enumerate(self.texts):
            for word in _words(text):
                postings.setdefault(word, []).append(number)
        return {word: np.array(numbers) for word, numbers in postings.items()}

    def candidates(self, text: str, scope: np.ndarray) -> tuple[list[int], list[float]]:
        """Return the documents in which a text may stand, those that share most words first, and how much they do."""
        everywhere = scope.tolist(), [0.0] * len(scope)
        if len(scope) <= _FEW:
            return everywhere
        rarest = sorted((self._postings[w] for w in _words(text) if w in self._postings), key=len)[:_WORDS]
        if not rarest:
            return everywhere
        weights = np.zeros(len(self.names))
        for numbers in rarest:
            weights[numbers] += np.log(1 + len(self.names) / len(numbers))
        within = weights[scope]
        chosen = np.flatnonzero((within >= within.max() / 2) & (within > 0))
        chosen = chosen[np.argsort(-within[chosen], kind="stable")]
        return scope[chosen].tolist(), within[chosen].tolist()

    def _find_edges(self, number: int) -> np.ndarray:
        """Return the folded positions at which words begin or end."""
        gaps = np.flatnonzero(np.diff(self.origins(number), prepend=-2) > 1)
        alone = [at for match in WITHOUT_BLANKS.finditer(self.folded(number)) for at in match.span()]
        return np.union1d(np.union1d(gaps, alone), len(self.folded(number))).astype(int)


@dataclass(frozen=True, eq=False)
class _Query:
    """A text that is looked for: in NFC; folded; in which documents; and what stands before and after it."""

    text: str
    folded: str
    scope: np.ndarray
    prefix: str = ""
    suffix: str = ""

    @cached_property
    def fixed(self) -> bool:
        """True if prefix and suffix say enough to fix a place within a word."""
        around = bool(self.prefix or self.suffix)
        return around and len(fold(self.prefix + self.text + self.suffix)) >= LONG

    @cached_property
    def numbers(self) -> list[str]:
        """The numbers in it."""
        return _find_numbers(self.text)

    @cached_property
    def marks(self) -> tuple[str, str]:
        """The punctuation before and after its first and last word; an ellipsis says that the document goes on."""
        text = self.text
        first = next(at for at, c in enumerate(text) if fold(c))
        last = next(at for at in range(len(text), 0, -1) if fold(text[at - 1]))
        before, after = (_OMISSION.sub("", part) for part in (text[:first], text[last:]))
        return "".join(before.split())[-_ROOM:], "".join(after.split())[:_ROOM]


def _make_query(text: str, scope: np.ndarray, prefix: str = "", suffix: str = "") -> _Query:
    text = unicodedata.normalize("NFC", text)
    return _Query(text, fold(text), scope, prefix, suffix)


def _locate(quote: Quote, documents: _Documents) -> list[Location]:
    prefix, suffix = quote.prefix[-_CONTEXT:], quote.suffix[:_CONTEXT]
    if any(map(_is_no_text, (quote.text, prefix, suffix))):
        raise _Problem(f"quote: expected text, got over {_MOST_MARKS} combining characters in a row: copy it again")
    query = _make_query(quote.text, documents.scope(quote.corpus, quote.doc), prefix, suffix)
    if not query.folded:
        raise _Problem(f"quote: expected letters or digits, got {_show(quote.text)}: copy a sentence of the document")
    places = _find_same(query, documents) or _find_parts(query, documents, changed=False)
    if not places:
        places, nearest = _find_similar(query, documents)
        places = places or _find_parts(query, documents, changed=True)
        if not places:
            raise _Problem(_describe_missing(quote, query, nearest))
    return sorted(places, key=lambda place: (documents.numbers[place.corpus, place.doc], place.start))


def _find_same(query: _Query, documents: _Documents, part: bool = False) -> list[Location]:
    """Return exact places, or else normalised ones; if there are several, those that prefix and suffix choose.

    Of a part of a quote both, because others of them may stand in order. Raises _Problem if there are too many.
    """
    places: list[Location] = []
    looked_at = max(MOST_PLACES, min(_LOOKED_AT, _COMPARED // len(query.folded)))
    most = looked_at if part or query.prefix or query.suffix else MOST_PLACES
    around = f"{query.prefix} {query.text} {query.suffix}"
    # The words of a prefix or suffix that was edited since may be those of other documents.
    for words in dict.fromkeys((around.strip(), query.text.strip())):
        candidates, _ = documents.candidates(words, query.scope)
        for find in (_find_exact, _find_normalised):
            if part or not places:
                for number in candidates:
                    places += islice(find(query, number, documents), most + 1 - len(places))
        if places:
            break
    # Of `e-mail`, the words of a document that has `email` are others.
    joined = " ".join(map(fold, query.text.split()))
    if not places and len(query.folded) < LONG and _words(joined) != _words(query.text):
        for number in documents.candidates(joined, query.scope)[0]:
            places += islice(_find_normalised(query, number, documents), most + 1 - len(places))
    places = places if len(places) > most else _choose_by_context(query, places, documents)
    if len(places) > (most if part else MOST_PLACES):
        raise _Problem(_describe_excess(query))
    return places


def _find_all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _find_exact(query: _Query, number: int, documents: _Documents) -> Iterator[Location]:
    text, stripped = documents.texts[number], query.text.strip()
    blanks = len(query.text) - len(query.text.lstrip())
    for at in _find_all(text, stripped):
        if _is_whole(query, text, at, at + len(stripped)):
            begin = at - blanks
            given = begin >= 0 and text.startswith(query.text, begin)
            start, size = (begin, len(query.text)) if given else (at, len(stripped))
            yield Location(*documents.names[number], start, start + size, "exact", 1.0)


def _find_normalised(query: _Query, number: int, documents: _Documents) -> Iterator[Location]:
    text, size = documents.texts[number], len(query.folded)
    for at in _find_all(documents.folded(number), query.folded):
        origin = documents.origins(number)
        start, end = int(origin[at]), int(origin[at + size - 1]) + 1
        # A part of a character, such as the i of a ligature.
        parted = (at > 0 and origin[at - 1] == start) or (at + size < len(origin) and origin[at + size] == end - 1)
        # `1.5` is not `15`.
        if parted or not _is_whole(query, text, start, end) or _find_numbers(text[start:end]) != query.numbers:
            continue
        if size >= LONG or _words_agree(query.text, text[start:end]):
            yield Location(*documents.names[number], *_with_marks(query, text, start, end), "normalised", 1.0)


def _find_numbers(text: str) -> list[str]:
    return [fold(number) for number in re.findall(r"\d+", unicodedata.normalize("NFKC", text))]


def _is_whole(query: _Query, text: str, start: int, end: int) -> bool:
    """Return True if a place may be that of a quote: a short one is whole words, or prefix and suffix fix it."""
    if len(query.folded) >= LONG or not (_goes_on(text, start) or _goes_on(text, end)):
        return True
    before, after = text[max(0, start - len(query.prefix)) : start], text[end : end + len(query.suffix)]
    return query.fixed and (before, after) == (query.prefix, query.suffix)


def _goes_on(text: str, at: int) -> bool:
    """Return True if a word or number goes on from one side of an offset to the other."""
    # Most places of a short quote are within a word: there may be millions.
    if at and (touching := text[at - 1 : at + 1]).isascii() and touching.isalnum() and len(touching) == 2:
        return True
    sides = text[max(0, at - _ROOM) : at], text[at : at + _ROOM]
    before, after = ("".join(c for c in side if unicodedata.category(c) != "Cf") for side in sides)
    if re.match(r"\d[.,]\d", f"{before[-2:]}{after[:1]}") or re.match(r"\d[.,]\d", f"{before[-1:]}{after[:2]}"):
        return True
    around = before[-1:] + after[:1]
    letters = all(c.isalnum() or unicodedata.category(c)[0] == "M" for c in around)
    return len(around) == 2 and letters and not WITHOUT_BLANKS.search(around)


def _words_agree(quote: str, text: str) -> bool:
    """Return True unless blanks alone part two letters of one text and nothing does in the other: `the rapist`."""
    gaps, blanks = [], []
    for one in (quote, text):
        origin, folded = _origins(one).tolist(), fold(one)
        between = {i: one[origin[i - 1] + 1 : origin[i]] for i in range(1, len(origin))}
        gaps.append({i for i, gap in between.items() if gap})
        letters = {i for i in between if not re.search(r"\d", folded[i - 1 : i + 1])}
        blanks.append({i for i in letters if between[i].isspace() and not WITHOUT_BLANKS.search(folded[i - 1 : i + 1])})
    return not (blanks[0] - gaps[1] or blanks[1] - gaps[0])


def _with_marks(query: _Query, text: str, start: int, end: int) -> tuple[int, int]:
    """Return a place with the punctuation around it, as far as the quote has the same at its ends."""
    for mark in query.marks[0][::-1]:
        at = len(text[max(0, start - _ROOM) : start].rstrip()) + max(0, start - _ROOM)
        if at < 1 or text[at - 1].translate(_EQUIVALENT) != mark.translate(_EQUIVALENT):
            break
        start = at - 1
    for mark in query.marks[1]:
        at = end + _ROOM - len(text[end : end + _ROOM].ljust(_ROOM, "x").lstrip())
        if text[at : at + 1].translate(_EQUIVALENT) != mark.translate(_EQUIVALENT):
            break
        end = at + 1
    return start, end


def _choose_by_context(query: _Query, places: list[Location], documents: _Documents) -> list[Location]:
    """Return the places whose surroundings are most similar to prefix and suffix; all if there is neither."""
    if len(places) < 2 or not (query.prefix or query.suffix):
        return places
    scores = []
    for place in places:
        text = documents.texts[documents.numbers[place.corpus, place.doc]]
        before = text[max(0, place.start - len(query.prefix)) : place.start]
        pairs = ((query.prefix, before), (query.suffix, text[place.end : place.end + len(query.suffix)]))
        scores.append(sum(fuzz.ratio(given, there, processor=default_process) for given, there in pairs))
    return [place for place, score in zip(places, scores, strict=True) if score == max(scores)]


def _find_parts(query: _Query, documents: _Documents, changed: bool) -> list[Location]:
    """Return the parts of a text with an ellipsis, `changed` or not; nothing if it has none, or if a part is not found.

    Raises _Problem if there are more than MOST_PARTS, or if they stand in order in more than MOST_PLACES documents.
    """
    pieces = _ELLIPSIS.split(query.text, MOST_PARTS)
    if len(pieces) > MOST_PARTS:
        if not changed:
            return []  # It may be a table of contents, and similar as a whole.
        raise _Problem(
            f"quote: expected at most {MOST_PARTS} parts with an ellipsis between them, got more: "
            f"{_show(query.text)}: give them as quotes of their own"
        )
    parts = [part for piece in pieces if (part := _make_query(piece.strip(), query.scope)).folded]
    if len(parts) < 2:
        return []
    parts[0], parts[-1] = replace(parts[0], prefix=query.prefix), replace(parts[-1], suffix=query.suffix)
    scope, places = query.scope, dict[int, dict[int, list[Location]]]()
    # The longest first: short ones are then looked for in few documents.
    for i in sorted(range(len(parts)), key=lambda i: -len(parts[i].folded)):
        part, places[i] = replace(parts[i], scope=scope), {}
        for place in _find_same(part, documents, part=True) or (_find_similar(part, documents)[0] if changed else []):
            places[i].setdefault(documents.numbers[place.corpus, place.doc], []).append(place)
        scope = np.array(sorted(places[i]), int)
    chains = [_find_shortest_chain([places[i][number] for i in range(len(parts))]) for number in scope.tolist()]
    if sum(map(bool, chains)) > MOST_PLACES:
        raise _Problem(_describe_excess(query))
    return [place for chain in chains for place in chain]


def _find_shortest_chain(parts: list[list[Location]]) -> list[Location]:
    """Return a place of each part, in order, that together span least text; nothing if they do not stand in order."""
    best: list[Location] = []
    rest = [sorted(places, key=lambda place: place.start) for places in parts]
    for place in rest[0]:
        chain = [place]
        for places in rest[1:]:
            at = bisect_left(places, chain[-1].end, key=lambda place: place.start)
            if at == len(places):
                return best
            chain.append(places[at])
        if not best or chain[-1].end - chain[0].start < best[-1].end - best[0].start:
            best = chain
    return best


def _find_similar(query: _Query, documents: _Documents) -> tuple[list[Location], list[Location]]:
    """Return the most similar places, if they are similar enough, and the most similar one anyhow.

    Raises _Problem if all documents that are compared have nearly the same text, and there are more.
    """
    if not LONG <= len(query.folded) <= LONGEST:
        return [], []
    candidates, shares = documents.candidates(query.text, query.scope)
    compared = candidates if len(query.scope) <= _FEW else candidates[:_SIMILAR]
    ranked, least = list[tuple[_Match, int]](), 0.0
    for number in compared:
        for match in _compare(query.folded, number, documents, least):
            ranked.append((match, number))
            # Nothing is said of what is much less similar.
            least = max(least, match.score - 2 * _CLOSE)
    ranked.sort(key=lambda item: (-item[0].score, item[1], item[0].low))
    nearest = [_place(query, *item, documents) for item in ranked[:1] if item[0].score > _NEAREST]
    if not ranked or ranked[0][0].score < THRESHOLD:
        return [], nearest
    best = ranked[0][0].score
    near = {number for match, number in ranked if match.score >= best - _NEAR}
    omitted = shares[len(compared)] if len(compared) < len(candidates) else -1.0
    if omitted >= shares[candidates.index(ranked[0][1])] or len(near) == len(compared) < len(candidates):
        raise _Problem(_describe_excess(query, ", a little changed"))
    least = max(THRESHOLD, best - (_CLOSE if query.prefix or query.suffix else 1e-9))
    taken: list[tuple[_Match, int]] = []
    for match, number in ranked:
        apart = (n != number or match.high <= other.low or other.high <= match.low for other, n in taken)
        if match.score >= least and all(apart):
            taken.append((match, number))
    places = [_place(query, match, number, documents) for match, number in taken]
    return _choose_by_context(query, places, documents), nearest


def _compare(quote: str, number: int, documents: _Documents, least: float) -> list[_Match]:
    """Return the places of a document where most pieces of a quote stand, with their similarity to it."""
    text, size = documents.folded(number), 8 if len(quote) > _PIECES else 5
    anchors = np.unique(np.linspace(0, len(quote) - size, _PIECES).astype(int))
    pairs = [
        (at, anchor)
        for anchor in anchors.tolist()
        for at, _ in zip(_find_all(text, quote[anchor : anchor + size]), range(_MATCHES), strict=False)
    ]
    if not pairs:
        return []
    positions, anchors = np.array(sorted(pairs, key=lambda pair: pair[0] - pair[1])).T
    begins, width = positions - anchors, max(16, len(quote) // 8)
    # What was left out or put in moves the rest of the quote.
    votes = np.searchsorted(begins, begins + width, "right") - np.arange(len(begins))
    matches, taken = list[_Match](), list[int]()
    for i in np.argsort(-votes, kind="stable").tolist():
        if votes[i] < votes.max() / 2 or len(taken) == _CANDIDATES:
            break
        if all(abs(begins[i] - other) > width for other in taken):
            taken.append(begins[i])
            its = np.arange(i, i + votes[i])
            # A title above repeats words of the first sentence.
            its = its[np.abs(begins[its] - begins[its[len(its) // 2]]) <= _ROOM]
            its = its[np.argsort(anchors[its], kind="stable")]
            matches.append(_measure(quote, text, anchors[its], positions[its], documents.edges(number), least))
    return matches


def _measure(
    quote: str, text: str, anchors: np.ndarray, positions: np.ndarray, edges: np.ndarray, least: float
) -> _Match:
    """Choose the ends of a place at which pieces of a quote stand, and compare it with the quote.

    The pieces start at `anchors` of the quote, ascending, and at `positions` of the text, both folded; words of the
    text begin or end at `edges`. A similarity below `least` counts as none.
    """
    # Only what is beyond a word near each end is compared.
    edge = min(_EDGE, len(quote) // 2)
    head = int(np.argmax(anchors >= min(edge, anchors[-1])))
    tail = len(anchors) - 1 - int(np.argmax(anchors[::-1] <= max(len(quote) - edge, anchors[0])))

    def choose(part: str, hit: int, target: int, least: int, most: int) -> int:
        target = min(max(target, least), most)
        low, high = np.searchsorted(edges, (max(least, target - _ROOM), min(most, target + _ROOM) + 1))

        def similarity(at: int) -> tuple[float, int]:
            return Indel.normalized_similarity(part, text[min(hit, at) : max(hit, at)]), -abs(at - target)

        return max(edges[low:high].tolist(), key=similarity, default=target)

    first, last = int(positions[head]), int(positions[tail])
    low = choose(quote[: anchors[head]], first, first - int(anchors[head]), 0, first)
    rest = quote[anchors[tail] :]
    high = choose(rest, last, last + len(rest), max(low, last) + 1, len(text))
    return _Match(Levenshtein.normalized_similarity(quote, text[low:high], score_cutoff=least), low, high)


def _place(query: _Query, match: _Match, number: int, documents: _Documents) -> Location:
    origin, text = documents.origins(number), documents.texts[number]
    ends = _with_marks(query, text, int(origin[match.low]), int(origin[match.high - 1]) + 1)
    return Location(*documents.names[number], *ends, "normalised" if match.score == 1 else "fuzzy", match.score)


def _describe_missing(quote: Quote, query: _Query, nearest: list[Location]) -> str:
    where = " of ".join(
        f"{kind} {_show(name)}" for kind, name in (("document", quote.doc), ("corpus", quote.corpus)) if name
    )
    expected = f"quote: expected text of {where or 'a document'}, got {_show(quote.text)}"
    if len(query.folded) < LONG:
        return f"{expected}, which is not there as whole words: copy it again, or give more of the text"
    if len(query.folded) > LONGEST:
        return (
            f"{expected}, which is not there, and of more than {LONGEST:,} letters and digits no similar text is "
            "searched: divide it"
        )
    absent = ", which is not there"
    for place in nearest:
        absent = (
            f"; the most similar text is {printable(f'{place.corpus}/{place.doc}')}, {place.start}..{place.end}, with "
            f"a similarity of {place.score:.2f} where {THRESHOLD} is needed"
        )
    return f"{expected}{absent}: copy it again; if a page ends in it, give one part"


def _describe_excess(query: _Query, how: str = "") -> str:
    return (
        f"quote: expected text that stands at no more than {MOST_PLACES} places, got {_show(query.text)}, which "
        f"stands at more{how}: name the document, or give prefix or suffix"
    )


def _is_no_text(text: str) -> bool:
    """Return True if a text has more than _MOST_MARKS combining characters in a row."""
    runs = groupby(text, lambda character: unicodedata.combining(character) > 0) if not text.isascii() else ()
    return any(combining and sum(1 for _ in run) > _MOST_MARKS for combining, run in runs)


def _show(text: str) -> str:
    return printable(f'"{text[:60]}{"…" if len(text) > 60 else ""}"')
