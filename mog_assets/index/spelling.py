"""Words that no document has, taken for the nearest ones that some have."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from mog_assets.index.statistics import Together
from mog_assets.text.languages import LANGUAGES
from mog_assets.text.terms import terms_of

# Other forms of the word that is meant are at most so many edits away.
_FARTHEST = 4


@dataclass(frozen=True)
class Vocabulary:
    """The terms and the words of documents.

    Attributes:
        occurrences: How often each term occurs.
        characters: All that they have.
        words: How often words occur as they are written, case folded; see `text.terms.words_in`.
    """

    occurrences: Together
    characters: str
    words: Together


def taken_for(words: Sequence[str], language: str, vocabulary: Vocabulary) -> dict[str, str]:
    """Return what misspelt words are taken for; those that no word is near to are left out."""
    letters, taken = _by_script(vocabulary.characters), dict[str, str]()
    for word in words:
        near = _neighbours(word, letters.get(_script(word[0]), []))
        times = vocabulary.words.values_of(near).tolist()
        most, other = max(zip(times, near, strict=True), default=(0, ""))
        other = other if most else _of_another_form(word, near, language, vocabulary)
        taken |= {word: other} if other else {}
    return taken


def _by_script(characters: str) -> dict[str, list[str]]:
    """Return the letters among some characters by the script that they are of."""
    letters: dict[str, list[str]] = {}
    for letter in sorted(set(characters)):
        if letter.isalpha():
            letters.setdefault(_script(letter), []).append(letter)
    return letters


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _of_another_form(word: str, near: Sequence[str], language: str, vocabulary: Vocabulary) -> str:
    """Return the nearest word of the documents with the stem of one that is an edit away; empty if there is none."""
    from rapidfuzz.distance import OSA

    # Of those with the same stem the first: letters without diacritics.
    stems = {row[0]: other for other, row in zip(near[::-1], terms_of(near[::-1], language), strict=True) if row}
    counts = vocabulary.occurrences.values_of(list(stems)).tolist()
    stems = {s: o for (s, o), count in zip(stems.items(), counts, strict=True) if count}
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
    return stems[max(stems, key=lambda term: int(vocabulary.occurrences.values_of([term])[0]))] if joined else ""


def _neighbours(word: str, letters: Sequence[str]) -> list[str]:
    """Return words that are an edit away and begin with the same letter."""
    cuts = [(word[:i], word[i:]) for i in range(1, len(word) + 1)]
    edits = {
        *(a + b[1:] for a, b in cuts if b),
        *(a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1),
        *(a + letter + b[1:] for a, b in cuts if b for letter in letters),
        *(a + letter + b for a, b in cuts for letter in letters),
    }
    return sorted(edits - {word})
