"""What a question made from a document must satisfy to be kept; each failure has a name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from mog_assets.plugins.generated_questions.candidates import Candidate, Dropped
from mog_assets.plugins.generated_questions.likeness import normalised
from mog_assets.plugins.generated_questions.windows import BREADTHS, Extract
from mog_assets.questions.locate import Located, Quote, locate
from mog_assets.questions.sets import Evidence, Question

REFUSED = "the model refused"
UNPARSABLE = "unparsable"
NOTHING = "nothing to ask"
TOO_SHORT = "too short"
TOO_LONG = "too long"
NAMES_TEXT = "names the text"
NO_QUOTE = "quote not in the document"
QUOTE_SHOWN = "contains its quote"
COPY = "near copy"
NOT_FOUND = {"bm25": "not found by bm25", "dense": "not found by dense"}
# In the order in which they are applied.
REASONS = (
    *(REFUSED, UNPARSABLE, NOTHING, TOO_SHORT, TOO_LONG, NAMES_TEXT, NO_QUOTE, QUOTE_SHOWN, COPY),
    *NOT_FOUND.values(),
)

# Letters and digits of a question and of a quote, at least; characters of a question and of an answer, at most.
_LEAST_LETTERS, _LEAST_QUOTED = 8, 12
_MOST_QUESTION, _MOST_ANSWER = 400, 1_000

# A question that refers to the text which it was made from cannot be asked by anybody who has not seen it. English,
# German and French; other languages are not checked. "the document" and "the article" alone are left: collections are
# about documents and articles as well.
_TEXT_EN = "texts?|passages?|excerpts?|snippets?|extracts?"
_PART_EN = "documents?|articles?|sections?|paragraphs?|pages?|chapters?|authors?|writers?|quotes?|title"
_WHICH_EN = "given|provided|above|following|preceding|present"
_TEXT_DE = "texte?s?|texten|textabschnitte?s?|textauszug(?:e?s)?|passagen?|auszug(?:e?s)?|auszüge"
_PART_DE = "dokumente?s?|artikels?|abschnitte?s?|absatz(?:es)?|kapitels?|seite|autors?|autorin|verfassers?|titels?"
_TEXT_FR = "textes?|extraits?"
_PART_FR = "passages?|documents?|articles?|sections?|paragraphes?|pages?|chapitres?|auteure?s?|titre"
_NAMING = re.compile(
    "|".join(
        rf"\b(?:{pattern})\b"
        for pattern in (
            rf"(?:the|this|that|these)\s+(?:(?:{_WHICH_EN})\s+)?(?:{_TEXT_EN})(?!\s+messag)",
            rf"(?:this|these)\s+(?:{_PART_EN})",
            rf"the\s+(?:{_WHICH_EN})\s+(?:{_PART_EN})",
            rf"(?:{_TEXT_EN}|{_PART_EN})\s+above",
            rf"(?:according\s+to|mentioned\s+in|described\s+in|stated\s+in|does|did)\s+the\s+(?:{_PART_EN})(?!\s+of\b)",
            rf"(?:der|die|das|dem|den|des|dies(?:er|e|es|em|en)|im|vom|zum)\s+(?:\w+en\s+)?(?:{_TEXT_DE})",
            rf"(?:dies(?:er|e|es|em|en)|im|laut|laut\s+de[mrs]|gemäß\s+de[mr]|nach\s+dem)\s+(?:{_PART_DE})",
            rf"(?:le|les|ce|ces|cet|du|au|aux|des)\s+(?:{_TEXT_FR})",
            rf"(?:ce|ces|cet|cette)\s+(?:{_PART_FR})",
            rf"(?:selon|dans|d[’']après)\s+(?:le\s+|la\s+|les\s+|l[’'])(?:{_TEXT_FR}|{_PART_FR})",
        )
    ),
    re.IGNORECASE,
)


def quote_span(text: str, quote: str) -> tuple[int, int] | None:
    """Return where a quote stands in a text, up to case, blanks and punctuation: start and end of the first place.

    None if it does not: what is only similar was not copied from there.
    """
    (located,) = locate([Quote(quote)], {("", ""): text}) if quote.strip() else (Located(()),)
    spans = [(place.start, place.end) for place in located.places if place.how != "fuzzy"]
    return min(spans, default=None)


def names_the_text(question: str) -> bool:
    """Return whether a question refers to the text that it was made from, in English, German or French."""
    return _NAMING.search(question) is not None


def dropped(window: Extract, question: str, reason: str, detail: str = "") -> Dropped:
    """Return the record of a question that is not kept."""
    return Dropped(window.document, window.number, window.style, question, reason, detail)


def checked(candidate: Candidate, corpus: str) -> Question | Dropped:
    """Return a candidate as a question with its evidence, or what is wrong with it by itself.

    Args:
        candidate: The candidate.
        corpus: The corpus of its document.
    """
    window, text = candidate.window, candidate.question
    longest = BREADTHS[window.breadth].evidence
    quoted = sum(map(len, candidate.quotes))

    def no(reason: str, detail: str = "") -> Dropped:
        return dropped(window, text, reason, detail)

    if _letters(text) < _LEAST_LETTERS:
        return no(TOO_SHORT, f"the question has {_letters(text)} letters, expected {_LEAST_LETTERS}")
    if short := [quote for quote in candidate.quotes if _letters(quote) < _LEAST_QUOTED]:
        return no(TOO_SHORT, f"the quote has {_letters(short[0])} letters, expected {_LEAST_QUOTED}: {short[0]}")
    for what, size, most in (
        ("question", len(text), _MOST_QUESTION),
        ("answer", len(candidate.answer), _MOST_ANSWER),
        ("quote", quoted, longest),
    ):
        if size > most:
            return no(TOO_LONG, f"the {what} has {size} characters, expected at most {most}")
    if names_the_text(text):
        return no(NAMES_TEXT)
    spans = []
    for quote in candidate.quotes:
        span = quote_span(window.text, quote)
        if span is None:
            return no(NO_QUOTE, quote)
        spans.append((window.start + span[0], window.start + span[1]))
    if any(f" {normalised(quote)} " in f" {normalised(text)} " for quote in candidate.quotes):
        return no(QUOTE_SHOWN)
    evidence = tuple(Evidence(corpus, window.document, *span) for span in sorted(set(spans)))
    return Question(
        id=f"generated-{_digest(corpus, window.document, text)}",
        question=text,
        kind=window.style,
        split="",
        answer=candidate.answer,
        evidence=evidence,
        origin="generated",
    )


def counted(rows: Sequence[Dropped]) -> dict[str, int]:
    """Return number of questions by reason, in the order of `REASONS`; reasons of none are left out."""
    return {reason: n for reason in REASONS if (n := sum(row.reason == reason for row in rows))}


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
