"""Find quotes in documents: the offsets of a text that somebody copied.

Three stages; the first that finds something ends the search.

1. exact: the NFC of the quote stands in the text.
2. normalised: the same with case, blanks, punctuation and compatibility forms left out (`folding`). So line breaks,
   hyphens at the end of a line, soft hyphens, ligatures and curly quotation marks make no difference.
3. fuzzy: the most similar place, if it is similar enough (`quote_index`). Text that stands in many documents with small
   changes is not located: any of them may be meant.

An ellipsis within a quote (`...`, `…`, `[...]`) stands for text that was left out, unless the document has none there.
The parts are then found one by one, each after the one before and in the same document. Each is a place of its own:
what was left out is not evidence. Of several ways to choose them in a document, the one that spans least text is taken.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.utils import default_process

from mog_assets.questions.folding import Folding, fold
from mog_assets.questions.quote_index import MOST, Match, Name, QuoteIndex, Scope
from mog_assets.resources.printable import printable

LONG, LONGEST = 20, 50_000
"""Folded characters from which on a quote may begin or end within a word, and may be found by similarity; and up to
which it is: time grows with the square of them."""
THRESHOLD = 0.85
"""Least similarity of a place, chosen on training questions: `benchmarks/evidence.py --threshold`."""
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
# Marks at an end of a quote that are compared with the document's, and blanks between them.
_MARKS = 16
_OMISSION = re.compile(r"\.{3,}|…")
_ALIKE = {**dict.fromkeys(map(ord, '‘’‚‛“”„‟«»‹›`´"'), "'"), **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")}
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
    """Why a quote has no places."""


def locate(
    quotes: Sequence[Quote],
    documents: Mapping[Name, str],
    advance: Callable[[int], object] | None = None,
) -> list[Located]:
    """Find quotes in documents.

    A quote of fewer than `LONG` folded characters is found as whole words, unless its prefix and suffix fix the place,
    and never by similarity. Work per quote grows with the length of the documents it may stand in.

    Args:
        quotes: What was copied.
        documents: Texts in NFC by corpus and id. All are read once, then those in which a quote may be.
        advance: Called with 1 after each quote.

    Returns:
        For each quote its places, or the reason why it has none.
    """
    index, located = QuoteIndex(documents), []
    for quote in quotes:
        try:
            located.append(Located(tuple(_locate(quote, index))))
        except _Problem as problem:
            located.append(Located((), str(problem)))
        if advance:
            advance(1)
    return located


def _locate(quote: Quote, index: QuoteIndex) -> list[Location]:
    prefix, suffix = quote.prefix[-_CONTEXT:], quote.suffix[:_CONTEXT]
    if any(map(_is_no_text, (quote.text, prefix, suffix))):
        raise _Problem(f"quote: expected text, got over {_MOST_MARKS} combining characters in a row: copy it again")
    query = _make_query(quote.text, index.scope(quote.corpus, quote.doc), prefix, suffix)
    if not query.size:
        raise _Problem(f"quote: expected letters or digits, got {_show(quote.text)}: copy a sentence of the document")
    places = _find_same(query, index) or _find_parts(query, index, changed=False)
    if not places:
        places, nearest = _find_similar(query, index)
        places = places or _find_parts(query, index, changed=True)
        if not places:
            raise _Problem(_describe_missing(quote, query, nearest))
    return places


@dataclass(frozen=True)
class _Query:
    """A text that is looked for: in NFC; folded; where; and what stands before and after it."""

    text: str
    folded: Folding
    scope: Scope
    prefix: str = ""
    suffix: str = ""

    @property
    def size(self) -> int:
        return len(self.folded.codes)


def _make_query(text: str, scope: Scope, prefix: str = "", suffix: str = "") -> _Query:
    text = unicodedata.normalize("NFC", text).replace("\0", " ")
    return _Query(text, fold(text), scope, prefix, suffix)


def _find_same(query: _Query, index: QuoteIndex, part: bool = False) -> list[Location]:
    """Return exact places, or else normalised ones; if there are several, those that prefix and suffix choose.

    Of a part of a quote all, because others of them may stand in order. Raises _Problem if there are more than
    MOST_PLACES, or of a part more than MOST.
    """
    places, more = _find_in_context(query, index), False
    if not places:
        positions, more = index.find(query.folded, query.scope, words=query.size < LONG)
        places = [place for at in positions if (place := _verify(query, at, index))]
    if not part:
        places = [place for place in places if place.how == "exact"] or places
    if not more:
        places = _choose_by_context(query, places, index)
    if more or len(places) > (MOST if part else MOST_PLACES):
        raise _Problem(_describe_excess(query, "more than are looked at" if more else f"{len(places)} places"))
    return places


def _find_in_context(query: _Query, index: QuoteIndex) -> list[Location]:
    """Return the places at which prefix, text and suffix stand as given."""
    # The second time for those who left out the blanks between them.
    for blank in ("", " ") if query.prefix or query.suffix else ():
        before = unicodedata.normalize("NFC", f"{query.prefix}{blank}")
        around = _make_query(f"{before}{query.text}{blank}{query.suffix}", query.scope)
        head = int(np.searchsorted(around.folded.origin, len(before)))
        # A prefix and a suffix that say little are compared with those of all places.
        if around.size >= LONG and np.array_equal(around.folded.codes[head : head + query.size], query.folded.codes):
            positions, more = index.find(around.folded, query.scope, words=False)
            places = [place for at in positions if (place := _verify(query, at + head, index))]
            if places and not more:
                return places
    return []


def _verify(query: _Query, position: int, index: QuoteIndex) -> Location | None:
    """Return the place of a text whose bytes stand at a folded position; None if it is not the same text."""
    number, quote = index.number(position), query.folded
    text, (folded, at) = index.texts[index.names[number]], index.piece(position, position + query.size)
    after, origin = at + query.size, folded.origin
    if not np.array_equal(folded.codes[at:after], quote.codes):
        return None
    if origin[at] in origin[max(0, at - 1) : at] or origin[after - 1] in origin[after : after + 1]:
        return None  # A part of a character, such as the i of a ligature.
    if query.size < LONG and any(
        _splits_word(*((query.text, quote, i) if quote.starts[i] else (text, folded, at + i)))
        for i in np.flatnonzero(quote.starts != folded.starts[at:after]).tolist()
        if i
    ):
        return None
    start, stripped = int(origin[at]), query.text.strip()
    lead, blanks = int(quote.origin[0]), len(query.text) - len(query.text.lstrip())
    for given, begin in ((query.text, start - lead), (stripped, start - lead + blanks)):
        if begin >= 0 and text.startswith(given, begin):
            return Location(*index.names[number], begin, begin + len(given), "exact", 1.0)
    ends = _extend_by_marks(query, text, start, int(origin[after - 1]) + 1)
    return Location(*index.names[number], *ends, "normalised", 1.0)


def _splits_word(text: str, folded: Folding, i: int) -> bool:
    """Return True if nothing but blanks stands before a code, and it and the one before are letters: `the rapist`."""
    between = text[folded.origin[i - 1] + 1 : folded.origin[i]]
    return between.isspace() and not any(chr(code).isdecimal() for code in folded.codes[i - 1 : i + 1])


def _convert(query: _Query, match: Match, index: QuoteIndex) -> Location:
    """Return the place of a similar text."""
    name, (folded, at) = index.names[index.number(match.low)], index.piece(match.low, match.high)
    start, end = int(folded.origin[at]), int(folded.origin[at + match.high - match.low - 1]) + 1
    ends = _extend_by_marks(query, index.texts[name], start, end)
    return Location(*name, *ends, "normalised" if match.score == 1 else "fuzzy", match.score)


def _extend_by_marks(query: _Query, text: str, start: int, end: int) -> tuple[int, int]:
    """Return a place with the punctuation around it, as far as the quote has the same at its ends."""
    origin = query.folded.origin
    before, after = query.text[: origin[0]][-_MARKS:], query.text[origin[-1] + 1 :][:_MARKS]
    start -= _count_common_marks(text[max(0, start - _MARKS) : start][::-1], before[::-1])
    return start, end + _count_common_marks(text[end : end + _MARKS], after)


def _count_common_marks(text: str, marks: str) -> int:
    """Return how many characters at the beginning of a text are these marks, in order, with blanks between them.

    An ellipsis among the marks says that the document goes on.
    """
    end = 0
    for mark in "".join(_OMISSION.sub("", marks).split()):
        at = len(text) - len(text[end:].lstrip())
        if text[at : at + 1].translate(_ALIKE) != mark.translate(_ALIKE):
            break
        end = at + 1
    return end


def _choose_by_context(query: _Query, places: list[Location], index: QuoteIndex) -> list[Location]:
    """Return the places whose surroundings are most similar to prefix and suffix; all if there is neither."""
    if len(places) < 2 or not (query.prefix or query.suffix):
        return places
    scores = []
    for place in places:
        text = index.texts[place.corpus, place.doc]
        before = text[max(0, place.start - len(query.prefix)) : place.start]
        pairs = ((query.prefix, before), (query.suffix, text[place.end : place.end + len(query.suffix)]))
        scores.append(sum(fuzz.ratio(given, there, processor=default_process) for given, there in pairs))
    return [place for place, score in zip(places, scores, strict=True) if score == max(scores)]


def _find_parts(whole: _Query, index: QuoteIndex, changed: bool) -> list[Location]:
    """Return the parts of a text with an ellipsis, `changed` or not; nothing if it has none, or if a part is not found.

    Raises _Problem if there are more than MOST_PARTS, or if they stand in order in more than MOST_PLACES documents.
    """
    pieces = _ELLIPSIS.split(whole.text, MOST_PARTS)
    if len(pieces) > MOST_PARTS:
        if not changed:
            return []  # It may be a table of contents, and similar as a whole.
        raise _Problem(
            f"quote: expected at most {MOST_PARTS} parts with an ellipsis between them, got more: "
            f"{_show(whole.text)}: give them as quotes of their own"
        )
    parts = [part for piece in pieces if (part := _make_query(piece.strip(), whole.scope)).size]
    if len(parts) < 2:
        return []
    parts[0], parts[-1] = replace(parts[0], prefix=whole.prefix), replace(parts[-1], suffix=whole.suffix)
    scope, places = whole.scope, dict[int, dict[int, list[Location]]]()
    # The longest first: short ones are then looked for in few documents.
    for i in sorted(range(len(parts)), key=lambda i: -parts[i].size):
        part, places[i] = replace(parts[i], scope=scope), {}
        for place in _find_same(part, index, part=True) or (_find_similar(part, index)[0] if changed else []):
            places[i].setdefault(index.numbers[place.corpus, place.doc], []).append(place)
        scope = tuple(sorted(places[i]))
    chains = [_find_shortest_chain([places[i][number] for i in range(len(parts))]) for number in scope or ()]
    if sum(map(bool, chains)) > MOST_PLACES:
        raise _Problem(_describe_excess(whole, f"{sum(map(bool, chains))} places"))
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


def _find_similar(query: _Query, index: QuoteIndex) -> tuple[list[Location], list[Location]]:
    """Return the most similar places, if they are similar enough, and the most similar one anyhow.

    Raises _Problem if too many are almost as similar.
    """
    if not LONG <= query.size <= LONGEST:
        return [], []
    ranked, ambiguous = index.find_similar(query.folded, query.scope)
    nearest = [_convert(query, match, index) for match in ranked[:1]]
    if not ranked or ranked[0].score < THRESHOLD:
        return [], nearest
    if ambiguous:
        raise _Problem(_describe_excess(query, "many more, a little changed"))
    least = max(THRESHOLD, ranked[0].score - (_CLOSE if query.prefix or query.suffix else 1e-9))
    matches: list[Match] = []
    for match in ranked:
        if match.score >= least and all(match.high <= other.low or other.high <= match.low for other in matches):
            matches.append(match)
    places = [_convert(query, match, index) for match in sorted(matches, key=lambda match: match.low)]
    return _choose_by_context(query, places, index), nearest


def _describe_missing(quote: Quote, query: _Query, nearest: list[Location]) -> str:
    where = " of ".join(
        f"{kind} {_show(name)}" for kind, name in (("document", quote.doc), ("corpus", quote.corpus)) if name
    )
    expected = f"quote: expected text of {where or 'a document'}, got {_show(quote.text)}"
    if query.size < LONG:
        return f"{expected}, which is not there as whole words: copy it again, or give more of the text"
    if query.size > LONGEST:
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


def _describe_excess(query: _Query, number: str) -> str:
    return (
        f"quote: expected text that stands at no more than {MOST_PLACES} places, got {_show(query.text)}, which "
        f"stands at {number}: name the document, or give prefix or suffix"
    )


def _is_no_text(text: str) -> bool:
    """Return True if a text has more than _MOST_MARKS combining characters in a row."""
    runs = groupby(text, lambda character: unicodedata.combining(character) > 0) if not text.isascii() else ()
    return any(combining and sum(1 for _ in run) > _MOST_MARKS for combining, run in runs)


def _show(text: str) -> str:
    return printable(f'"{text[:60]}{"…" if len(text) > 60 else ""}"')
