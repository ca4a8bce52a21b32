"""The terms of a question: in the language of documents, with words that no document has taken for the nearest ones."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from mog_assets.text.characters import plain
from mog_assets.text.languages import LANGUAGES
from mog_assets.text.terms import EXACT, folded, is_word, terms_of

# A shorter word has too many neighbours. The first letter is rarely the wrong one.
_SHORTEST = 5
# Other forms of the word that is meant are at most so many edits away.
_FARTHEST = 4
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
# Names in code with the parts that they belong to, such as gc.auto, os.path.join() and std::vector.
_QUALIFIED = re.compile(r"(?!\d)\w+(?:(?:\.|::|->)\w+)+")
_NAME_IN_CODE = re.compile(r"\w*(?:_\w|\d|[a-z]{2}[A-Z][a-z])\w*")


class Words(Protocol):
    """How often words occur; see `index.term_tables.Together`."""

    def values_of(self, terms: Sequence[str]) -> np.ndarray:
        """Of some words, 0 of those that there are not."""

    def starting(self, prefix: str) -> list[str]:
        """The words that begin so."""


@dataclass(frozen=True)
class Vocabulary:
    """The terms and the words of documents.

    Attributes:
        occurrences: How often each term occurs.
        characters: All that they have.
        words: How often words occur as they are written, case folded; see `words_in`.
    """

    occurrences: Words
    characters: str
    words: Words

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
        times: list[int] = self.occurrences.values_of(terms).tolist()
        return times


def words_in(text: str) -> list[str]:
    """The words of a text, case folded, that a misspelt word may be taken for."""
    words = map(folded, WORD.findall(text))
    return [word for word in words if len(word) >= _SHORTEST - 1 and word.isalpha() and is_word(word)]


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

    A word that no document has is taken for one of theirs that is an edit away (a letter more, less or another, or two
    in the other order), the most frequent if there are several; else for another form of such a word. A question that
    is one option, version or name in code, and that documents have as it stands, has no other term.

    Args:
        question: The question.
        language: Code of its language.
        vocabulary: Of the documents that it is asked of.
    """
    question = plain(question)[0].strip()
    typed = question.removesuffix("()")
    # A Japanese sentence with a number in it looks like a name in code.
    if EXACT.fullmatch(typed) or (_NAME_IN_CODE.fullmatch(typed) and is_word(typed)):
        whole = terms_of([typed], language)[0][:1]
        if vocabulary.most(whole):
            return Analysed(whole, whole=True)
    elif _QUALIFIED.fullmatch(typed) and is_word(typed):
        terms = terms_of([typed], language)[0]
        if terms and all(vocabulary.times(terms)):
            return Analysed(terms, whole=True)
    taken = _taken(question, language, vocabulary)
    if taken:
        question = WORD.sub(lambda match: taken.get(folded(match[0]), match[0]), question)
    return Analysed(terms_of([question], language)[0], taken)


def _taken(question: str, language: str, vocabulary: Vocabulary) -> dict[str, str]:
    words = sorted({word for word in words_in(question) if len(word) >= _SHORTEST})
    taken: dict[str, str] = {}
    terms_of_words = terms_of(words, language)
    every = list(dict.fromkeys(term for terms in terms_of_words for term in terms))
    present = {term for term, times in zip(every, vocabulary.times(every), strict=True) if times}
    for word, terms, written in zip(words, terms_of_words, vocabulary.words.values_of(words).tolist(), strict=True):
        # Documents of other languages may have it.
        if terms and not written and present.isdisjoint(terms):
            near = _neighbours(word, vocabulary.letters.get(_script(word[0]), []))
            times = vocabulary.words.values_of(near).tolist()
            most, other = max(zip(times, near, strict=True), default=(0, ""))
            other = other if most else _of_another_form(word, near, language, vocabulary)
            taken |= {word: other} if other else {}
    return taken


def _of_another_form(word: str, near: Sequence[str], language: str, vocabulary: Vocabulary) -> str:
    """The nearest word of the documents with the stem of one that is an edit away; empty if there is none."""
    from rapidfuzz.distance import OSA

    # Of those with the same stem the first: letters without diacritics.
    stems = {row[0]: other for other, row in zip(near[::-1], terms_of(near[::-1], language), strict=True) if row}
    stems = {s: o for (s, o), times in zip(stems.items(), vocabulary.times(list(stems)), strict=True) if times}
    # The last letter of a stem may be none of the word.
    forms = sorted({form for stem in stems for form in vocabulary.words.starting(stem[:-1])})
    forms = [form for form, row in zip(forms, terms_of(forms, language), strict=True) if row and row[0] in stems]
    times = vocabulary.words.values_of(forms).tolist()
    ranked = [(OSA.distance(word, form), -count, form) for form, count in zip(forms, times, strict=True)]
    distance, _, form = min(ranked, default=(_FARTHEST + 1, 0, ""))
    if distance <= _FARTHEST:
        return form
    # The documents have it in a compound.
    joined = stems and language in LANGUAGES and LANGUAGES[language].compounds
    return stems[max(stems, key=lambda term: vocabulary.most([term]))] if joined else ""


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
