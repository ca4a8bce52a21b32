"""Near copies among questions: the same words but for inflection, order and words of no content.

Question words other than "what" and "which" are words of content, and so are numbers: "Who wrote it?" and "When was it
written?", type 1 and type 2 differ. Inflections are those of English; in other languages they make a word another one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from mog_assets.text.terms import stem

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
    known = set(map(_content, others))
    return [_content(text) in known for text in texts]


def repetitions(texts: Sequence[str]) -> list[bool]:
    """Return for each of n texts whether it is a near copy of an earlier one."""
    contents = list(map(_content, texts))
    first = {content: place for place, content in reversed(list(enumerate(contents)))}
    return [first[content] != place for place, content in enumerate(contents)]


def _content(text: str) -> frozenset[str]:
    """Return the stems of the words of content; all words if there is none of content."""
    words = normalised(text).split()
    return frozenset(map(stem, [word for word in words if word not in _EMPTY])) or frozenset(words)
