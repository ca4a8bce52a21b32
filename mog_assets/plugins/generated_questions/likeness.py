"""Near copies among questions: the same words but for inflection, order and words of no content.

Two texts are near copies if every word of content of each has a counterpart in the other: an equal word, or one with
the same beginning (`planted`, `plant`). Question words other than "what" and "which" are words of content, and so are
numbers: "Who wrote it?" and "When was it written?", type 1 and type 2 differ. Texts are compared with those that share
the beginning of their rarest word.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence

# Characters that words with the same beginning share at least.
_BEGINNING = 3
# Characters at the beginning that inflections of a word share, as a share of the longer form.
_STEM = 0.65
# Words of no content in English, German and French; other languages lose only copies that differ in such words.
_EMPTY_WORDS = """
a an the is are was were be been being am do does did done has have had having can could should would will may might
must shall of in on at to for from by with as and or that this these those it its there i you my your me we our one
what which s t
der die das den dem des ein eine einen einem einer eines ist sind war waren wird werden wurde wurden hat haben hatte
kann können soll sollte sollten muss man ich mein meine meinen es im am an von vom zu zum zur mit für auf und oder
was welche welcher welches
le la les l un une des du de d est sont était être ont peut doit on je mon ma mes il elle ce cette que qu quel
quelle quels quelles en dans à au aux par pour avec et ou
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
_WORD = re.compile(r"\w+")


def normalised(text: str) -> str:
    """Return a text without case, punctuation, and differences of composition or width."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def near_copies(texts: Sequence[str], others: Sequence[str]) -> list[bool]:
    """Return for each of n texts whether it is a near copy of any of some others, such as test questions."""
    known = _Texts()
    for other in others:
        known.add(other)
    return [known.has_copy(text) for text in texts]


def repetitions(texts: Sequence[str]) -> list[bool]:
    """Return for each of n texts whether it is a near copy of an earlier one that is not a repetition itself."""
    earlier, repeated = _Texts(), []
    for text in texts:
        repeated.append(earlier.has_copy(text))
        if not repeated[-1]:
            earlier.add(text)
    return repeated


class _Texts:
    """Texts by the beginnings of their words of content."""

    def __init__(self) -> None:
        self._normalised = set[str]()
        self._by_beginning = defaultdict[str, list[list[str]]](list)

    def add(self, text: str) -> None:
        self._normalised.add(normalised(text))
        words = _content(text)
        for beginning in {word[:_BEGINNING] for word in words}:
            self._by_beginning[beginning].append(words)

    def has_copy(self, text: str) -> bool:
        words = _content(text)
        # A copy has a counterpart of every word: that of the rarest is enough to find it.
        similar = min((self._by_beginning.get(word[:_BEGINNING], []) for word in words), key=len, default=[])
        return normalised(text) in self._normalised or any(_agree(words, other) for other in similar)


def _content(text: str) -> list[str]:
    """Return the words of content; all words if there is none of content."""
    words = normalised(text).split()
    return [word for word in words if word not in _EMPTY] or words


def _agree(words: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether every word has a counterpart on the other side."""
    return all(
        word in counterpart or any(_inflected(word, other) for other in counterpart)
        for these, counterpart in ((words, set(others)), (others, set(words)))
        for word in these
    )


def _inflected(word: str, other: str) -> bool:
    """Return whether two words may be forms of one."""
    least = math.ceil(_STEM * max(len(word), len(other)))
    return least > 2 and word[:least] == other[:least] and (word + other).isalpha()
