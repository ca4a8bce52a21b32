"""Parts of words that are joined without a blank, by the words that a dictionary has (simplemma)."""

from __future__ import annotations

from functools import lru_cache

from mog_assets.text.languages import LANGUAGES

# A shorter word is no part.
_SHORTEST = 4


@lru_cache(maxsize=1 << 18)
def parts(word: str, code: str) -> tuple[str, ...]:
    """The two words that a compound is made of, or none.

    Of several places where it can be cut, that is taken whose shorter part is longest, with the shortest link between
    them: "Verteidigungsleistung" is "verteidigung" and "leistung".

    Args:
        word: Case folded.
        code: Of a language with compounds.
    """
    best: tuple[tuple[int, int], tuple[str, ...]] = ((0, 0), ())
    for place in range(_SHORTEST, len(word) - _SHORTEST + 1):
        head = word[place:]
        if not _is_known(head, code):
            continue
        for link in LANGUAGES[code].compounds:
            first = word[:place].removesuffix(link)
            if word[:place].endswith(link) and len(first) >= _SHORTEST and _is_known(first, code):
                best = max(best, ((min(len(first), len(head)), -len(link)), (first, head)))
    return best[1]


@lru_cache(maxsize=1 << 18)
def _is_known(word: str, code: str) -> bool:
    from simplemma import is_known

    # Its name of Bokmål; and German nouns have a capital.
    lang = "nb" if code == "no" else code
    return bool(is_known(word, lang) or is_known(word.capitalize(), lang))
