"""Find quotes in documents: the offsets of a text that somebody copied.

Three stages; the first that finds something ends the search.

1. exact: the NFC of the quote stands in the text.
2. normalised: the same with case, blanks, punctuation and compatibility forms left out (`folding`). So line breaks,
   hyphens at the end of a line, soft hyphens, ligatures and curly quotation marks make no difference.
3. fuzzy: the most similar place, if it is similar enough (`fuzzy`). Text that stands in many documents with small
   changes is not located: any of them may be meant.

An ellipsis within a quote (`...`, `…`, `[...]`) stands for text that was left out, unless the document has none there.
The parts are then found one by one, each after the one before and in the same document. Each is a place of its own:
what was left out is not evidence. Of several ways to choose them in a document, the one that spans least text is taken.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mog_assets.questions.folding import Folding, code_points
from mog_assets.questions.fuzzy import (
    LONGEST,
    THRESHOLD,
    Similar,
    context_similarity,
    similar_places,
)
from mog_assets.questions.places import Place, Sought, same_place, similar_place
from mog_assets.questions.quote_index import LONG, MOST, Name, QuoteIndex, Scope, as_bytes
from mog_assets.resources.printable import printable

MOST_PLACES = 20
"""Places of a quote; one that stands more often has to be told apart."""
MOST_PARTS = 20
"""Parts of a quote with an ellipsis between them."""
# Characters of a prefix and suffix that are compared.
_CONTEXT = 200
# Similarity below the best at which a fuzzy place may still be chosen by its prefix and suffix.
_CLOSE = 0.05
# Longer runs of combining characters are no text; to put them in order takes the square of their number.
_MOST_MARKS = 100
_ELLIPSIS = re.compile(r"\[ ?(?:\.{3,}|…) ?\]|\( ?(?:\.{3,}|…) ?\)|\.{3,}|…|\. \. \.")

How = Literal["exact", "normalised", "fuzzy"]


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
        score: 1 if exact or normalised; else the similarity of the folded texts in [0, 1], `fuzzy.THRESHOLD` or more.
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
    """Why a quote has no places."""


def locate(
    quotes: Sequence[Quote],
    documents: Mapping[Name, str],
    advance: Callable[[int], object] | None = None,
) -> list[Located]:
    """Find quotes in documents.

    A quote of fewer than `LONG` folded characters is found as whole words, unless its prefix and suffix fix the place,
    and never by similarity. Work per quote is bounded: it grows with the length of the quote and with the number of
    words in the documents, not with the product of both.

    Args:
        quotes: What was copied.
        documents: Texts in NFC by corpus and id. All are read once, then those in which a quote may be.
        advance: Called with 1 after each quote.

    Returns:
        For each quote its places, or the reason why it has none.
    """
    folding = Folding()
    locator = _Locator(QuoteIndex(documents, folding), folding)
    located = []
    for quote in quotes:
        try:
            located.append(Located(locator.locate(quote)))
        except _Problem as problem:
            located.append(Located((), str(problem)))
        if advance:
            advance(1)
    return located


class _Locator:
    def __init__(self, index: QuoteIndex, folding: Folding) -> None:
        self._index, self._folding = index, folding
        self._ranked: tuple[Sought | None, tuple[list[Similar], bool]] = None, ([], False)

    def locate(self, quote: Quote) -> tuple[Location, ...]:
        prefix, suffix = quote.prefix[-_CONTEXT:], quote.suffix[:_CONTEXT]
        if any(map(_is_no_text, (quote.text, prefix, suffix))):
            raise _Problem(f"quote: expected text, got over {_MOST_MARKS} combining characters in a row: copy it again")
        scope = self._index.scope(quote.corpus, quote.doc)
        sought = self._sought(quote.text, scope, prefix, suffix)
        if not len(sought.folded.codes):
            raise _Problem(
                f"quote: expected letters or digits, got {_shown(quote.text)}: copy a sentence of the document"
            )
        places = (
            self._same(sought)
            or self._in_order(sought, changed=False)
            or self._similar(sought)
            or self._in_order(sought, changed=True)
        )
        if not places:
            raise _Problem(self._missing(quote, sought))
        return tuple(map(self._found, sorted(places, key=lambda place: place.low)))

    def _sought(self, text: str, scope: Scope, prefix: str = "", suffix: str = "") -> Sought:
        text = unicodedata.normalize("NFC", text).replace("\0", " ")
        return Sought(text, self._folding.fold(code_points(text)), scope, prefix, suffix)

    def _found(self, place: Place) -> Location:
        corpus, doc = self._index.names[place.document]
        how: How = "exact" if place.exact else "normalised" if place.score == 1 else "fuzzy"
        return Location(corpus, doc, place.start, place.end, how, place.score)

    def _same(self, sought: Sought, part: bool = False) -> list[Place]:
        """Exact places, or else normalised ones; if there are several, those that prefix and suffix choose.

        Args:
            sought: What is looked for.
            part: It is a part of a quote: all places, because others of them may stand in order.

        Raises:
            _Problem: there are more than MOST_PLACES, or of a part more than MOST.
        """
        most, best = (MOST, list[Place]) if part else (MOST_PLACES, _best)
        if places := self._with_context(sought):
            return _few(best(places), sought, most)
        positions, more = self._index.find(sought.folded, sought.scope, sought.words)
        places = best(self._resolved(sought, positions))
        if more:
            raise _Problem(_too_many(sought, "more than are looked at"))
        if len(places) > 1 and (sought.prefix or sought.suffix):
            places = self._chosen(sought, places)
        return _few(places, sought, most)

    def _with_context(self, sought: Sought) -> list[Place]:
        """The places at which prefix, text and suffix stand as given."""
        if not (sought.prefix or sought.suffix):
            return []
        size = len(sought.folded.codes)
        # The second time for those who left out the blanks between them.
        for blank in ("", " "):
            before = unicodedata.normalize("NFC", f"{sought.prefix}{blank}")
            around = self._sought(f"{before}{sought.text}{blank}{sought.suffix}", sought.scope).folded
            head = int(np.searchsorted(around.origin, len(before)))
            # A prefix and a suffix that say little are compared with those of all places.
            if len(around.codes) < LONG or not np.array_equal(around.codes[head : head + size], sought.folded.codes):
                continue
            positions, more = self._index.find(around, sought.scope, words=False)
            if not more and (places := self._resolved(sought, [position + head for position in positions])):
                return places
        return []

    def _resolved(self, sought: Sought, positions: Iterable[int]) -> list[Place]:
        places = (same_place(sought, position, self._index) for position in positions)
        return [place for place in places if place]

    def _chosen(self, sought: Sought, places: list[Place]) -> list[Place]:
        """The places whose surroundings are most similar to prefix and suffix."""
        prefix, suffix = (
            as_bytes(self._sought(text, sought.scope).folded.codes).tobytes().decode("latin-1")
            for text in (sought.prefix, sought.suffix)
        )
        scores = [context_similarity((prefix, suffix), place.low, place.high, self._index) for place in places]
        best = max(scores)
        return [place for place, score in zip(places, scores, strict=True) if score == best]

    def _in_order(self, whole: Sought, changed: bool) -> list[Place]:
        """The parts of a text with an ellipsis; nothing if it has none, or if a part is not found.

        Args:
            whole: The text.
            changed: Look for similar places of parts as well.

        Raises:
            _Problem: there are more than MOST_PARTS, or they stand in this order in more than MOST_PLACES documents.
        """
        pieces = _ELLIPSIS.split(whole.text, MOST_PARTS)
        if len(pieces) > MOST_PARTS:
            if not changed:
                return []  # It may be a table of contents, and similar as a whole.
            raise _Problem(
                f"quote: expected at most {MOST_PARTS} parts with an ellipsis between them, got more: "
                f"{_shown(whole.text)}: give them as quotes of their own"
            )
        parts = [self._sought(piece.strip(), whole.scope) for piece in pieces] if len(pieces) > 1 else []
        parts = [part for part in parts if len(part.folded.codes)]
        if len(parts) < 2:
            return []
        scope, places_of = whole.scope, dict[int, list[Place]]()
        # The longest first: short ones are then looked for in few documents.
        for i in sorted(range(len(parts)), key=lambda i: -len(parts[i].folded.codes)):
            prefix, suffix = whole.prefix if not i else "", whole.suffix if i == len(parts) - 1 else ""
            part = Sought(parts[i].text, parts[i].folded, scope, prefix, suffix)
            places_of[i] = self._same(part, part=True) or (self._similar(part) if changed else [])
            scope = self._index.of_documents(sorted({place.document for place in places_of[i]}))
            if not places_of[i]:
                return []
        chains = [
            chain
            for number in sorted({place.document for place in places_of[0]})
            if (chain := _shortest([[p for p in places_of[i] if p.document == number] for i in range(len(parts))]))
        ]
        if len(chains) > MOST_PLACES:
            raise _Problem(_too_many(whole, f"{len(chains)} places"))
        return [place for chain in chains for place in chain]

    def _similar(self, sought: Sought) -> list[Place]:
        """The most similar places, if they are similar enough.

        Raises:
            _Problem: too many are almost as similar.
        """
        if not LONG <= len(sought.folded.codes) <= LONGEST:
            return []
        ranked, unsure = self._nearest(sought)
        similar = [place for place in ranked if place.score >= THRESHOLD]
        if not similar:
            return []
        if unsure:
            raise _Problem(_too_many(sought, "many more, a little changed"))
        chosen = sought.prefix or sought.suffix
        least = similar[0].score - (_CLOSE if chosen else 1e-9)
        places: list[Place] = []
        for place in (similar_place(sought, s.start, s.end, s.score, self._index) for s in similar if s.score >= least):
            if all(place.high <= other.low or other.high <= place.low for other in places):
                places.append(place)
        return self._chosen(sought, places) if chosen and len(places) > 1 else places

    def _nearest(self, sought: Sought) -> tuple[list[Similar], bool]:
        """What `similar_places` returns; that of the text that was looked for last is kept."""
        if self._ranked[0] is not sought:
            self._ranked = sought, similar_places(sought.folded, self._index, sought.scope)
        return self._ranked[1]

    def _missing(self, quote: Quote, sought: Sought) -> str:
        where = " of ".join(
            f"{kind} {_shown(name)}" for kind, name in (("document", quote.doc), ("corpus", quote.corpus)) if name
        )
        expected = f"quote: expected text of {where or 'a document'}, got {_shown(quote.text)}"
        if len(sought.folded.codes) < LONG:
            return f"{expected}, which is not there as whole words: copy it again, or give more of the text"
        if len(sought.folded.codes) > LONGEST:
            return (
                f"{expected}, which is not there, and of more than {LONGEST:,} letters and digits no similar text is "
                "searched: divide it"
            )
        nearest = self._nearest(sought)[0][:1]
        for similar in nearest:
            place = self._found(similar_place(sought, similar.start, similar.end, similar.score, self._index))
            name = printable(f"{place.corpus}/{place.doc}")
            expected += (
                f"; the most similar text is {name}, {place.start}..{place.end}, with a similarity of "
                f"{place.score:.2f} where {THRESHOLD} is needed"
            )
        absent = expected if nearest else f"{expected}, which is not there"
        return f"{absent}: copy it again; if a page ends in it, give one part"


def _best(places: list[Place]) -> list[Place]:
    """The exact places, or all if none is."""
    return [place for place in places if place.exact] or places


def _few(places: list[Place], sought: Sought, most: int) -> list[Place]:
    if len(places) > most:
        raise _Problem(_too_many(sought, f"{len(places)} places"))
    return places


def _too_many(sought: Sought, number: str) -> str:
    return (
        f"quote: expected text that stands at no more than {MOST_PLACES} places, got {_shown(sought.text)}, which "
        f"stands at {number}: name the document, or give prefix or suffix"
    )


def _shortest(parts: list[list[Place]]) -> list[Place]:
    """A place of each part, in order, that together span least text; nothing if they do not stand in order."""
    best: list[Place] = []
    rest = [sorted(places, key=lambda place: place.low) for places in parts]
    lows = [[place.low for place in places] for places in rest]
    for place in rest[0]:
        chain = [place]
        for places, starts in zip(rest[1:], lows[1:], strict=True):
            at = bisect_left(starts, chain[-1].high)
            if at == len(places):
                return best
            chain.append(places[at])
        if not best or chain[-1].high - chain[0].low < best[-1].high - best[0].low:
            best = chain
    return best


def _is_no_text(text: str) -> bool:
    """Whether it has more than _MOST_MARKS combining characters in a row."""
    if text.isascii():
        return False
    points = code_points(text)
    marks = [point for point in np.unique(points).tolist() if unicodedata.combining(chr(point))]
    others = np.flatnonzero(~np.isin(points, np.array(marks, np.uint32)))
    return int(np.diff(np.concatenate([[-1], others, [len(points)]])).max()) > _MOST_MARKS + 1


def _shown(text: str) -> str:
    return printable(f'"{text[:60]}{"…" if len(text) > 60 else ""}"')
