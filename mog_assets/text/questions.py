"""The terms of a question: in the language of documents, with words that no document has taken for the nearest ones."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mog_assets.text.terms import EXACT, folded, is_word, terms_of

# A shorter word has too many neighbours. The first letter is rarely the wrong one.
_SHORTEST = 5
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_NAME_IN_CODE = re.compile(r"\w*(?:_\w|\d|[a-z]{2}[A-Z][a-z])\w*")


@dataclass(frozen=True)
class Vocabulary:
    """The terms of documents.

    Attributes:
        occurrences: How often each occurs.
        characters: All that they have.
    """

    occurrences: Mapping[str, int]
    characters: str

    @cached_property
    def letters(self) -> dict[str, list[str]]:
        """The letters of all terms by the script that they are of."""
        letters: dict[str, list[str]] = {}
        for letter in sorted(set(self.characters)):
            if letter.isalpha():
                letters.setdefault(_script(letter), []).append(letter)
        return letters

    def most(self, terms: Sequence[str]) -> int:
        """How often the most frequent of some terms occurs."""
        return max(self.times(terms), default=0)

    def times(self, terms: Sequence[str]) -> list[int]:
        """How often each of some terms occurs."""
        values_of = getattr(self.occurrences, "values_of", None)
        return values_of(terms).tolist() if values_of else [self.occurrences.get(term, 0) for term in terms]


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


@dataclass(frozen=True)
class Analysed:
    """A question as it is searched for.

    Attributes:
        terms: In order, repetitions included.
        taken: Words that no document has, case folded, with the word that each is taken for.
        whole: Whether the question is one option, version or name in code that documents have as it stands.
    """

    terms: list[str]
    taken: dict[str, str] = field(default_factory=dict)
    whole: bool = False


def analysed(question: str, language: str, vocabulary: Vocabulary) -> Analysed:
    """A question in a language.

    A word that no document has is taken for the one that is an edit away (a letter more, less or another, or two in
    the other order), the most frequent if there are several. A question that is one option, version or name in code,
    and that documents have as it stands, has no other term.

    Args:
        question: The question.
        language: Code of its language.
        vocabulary: Of the documents that it is asked of.
    """
    typed = question.strip()
    # A Japanese sentence with a number in it looks like a name in code.
    if EXACT.fullmatch(typed) or (_NAME_IN_CODE.fullmatch(typed) and is_word(typed)):
        whole = terms_of([typed], language)[0][:1]
        if vocabulary.most(whole):
            return Analysed(whole, whole=True)
    taken = _taken(question, language, vocabulary)
    if taken:
        question = _WORD.sub(lambda match: taken.get(folded(match[0]), match[0]), question)
    return Analysed(terms_of([question], language)[0], taken)


def _taken(question: str, language: str, vocabulary: Vocabulary) -> dict[str, str]:
    words = {folded(word) for word in _WORD.findall(question)}
    long = sorted(word for word in words if len(word) >= _SHORTEST and word.isalpha() and is_word(word))
    taken = {}
    terms_of_words = terms_of(long, language)
    every = list(dict.fromkeys(term for terms in terms_of_words for term in terms))
    present = {term for term, times in zip(every, vocabulary.times(every), strict=True) if times}
    for word, terms in zip(long, terms_of_words, strict=True):
        if terms and present.isdisjoint(terms):
            near = _neighbours(word, vocabulary.letters.get(_script(word[0]), []))
            # Of a compound, the whole.
            whole = [(word, row[0]) for word, row in zip(near, terms_of(near, language), strict=True) if row]
            times = vocabulary.times([term for _, term in whole])
            most, other = max(zip(times, (word for word, _ in whole), strict=True), default=(0, ""))
            if most:
                taken[word] = other
    return taken


def _neighbours(word: str, letters: Sequence[str]) -> list[str]:
    """Words that are an edit away and begin with the same letter."""
    cuts = [(word[:i], word[i:]) for i in range(1, len(word) + 1)]
    edits = {
        *(a + b[1:] for a, b in cuts if b),
        *(a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1),
        *(a + letter + b[1:] for a, b in cuts if b for letter in letters),
        *(a + letter + b for a, b in cuts for letter in letters),
    }
    return sorted(edits - {word})
