"""Languages of documents and questions, and what their analysis needs.

A document's language is detected when it is read, and recorded. A question is analysed in one of the languages of the
documents that it is asked of.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import distribution
from typing import Any

# What a text is analysed as whose language is not certain: its words may be of any.
DEFAULT = "en"
# The setting of a corpus whose documents are each analysed in their own language.
AUTO = "auto"
# Characters that are read of a text, and how probable its language must be. Of 20,731 English documents, many of them
# single sentences, two are then taken for another language; all German, Chinese and Japanese ones are found.
_READ, _SURE = 1000, 0.9
# How probable the language of a question must be that is not the one of most documents.
_QUESTION = 0.8
# A shorter word is no part of a compound.
_SHORTEST = 4


@dataclass(frozen=True)
class Language:
    """Facts of a language; all else is the same for all.

    Attributes:
        name: In English.
        stemmer: Snowball's name; empty if it has none.
        stop: Name of the list of stop words in bm25s; empty if it has none.
        compounds: Whether words are joined to new ones without a blank, and what may stand between: see `parts`.
        blanks: Whether words stand between blanks.
    """

    name: str
    stemmer: str = ""
    stop: str = ""
    compounds: Sequence[str] = ()
    blanks: bool = True


_GERMAN = ("", "s", "es", "n", "en", "er", "e")
_NORDIC = ("", "s", "e")
# By ISO 639-1 code. Languages that are not here are analysed by words without stems.
LANGUAGES = {
    "ar": Language("Arabic", "arabic"),
    "ca": Language("Catalan", "catalan"),
    "cs": Language("Czech", "czech"),
    "da": Language("Danish", "danish", "DANISH", _NORDIC),
    "de": Language("German", "german", "GERMAN", _GERMAN),
    "el": Language("Greek", "greek"),
    "en": Language("English", "english", "EN"),
    "es": Language("Spanish", "spanish", "SPANISH"),
    "et": Language("Estonian", "estonian"),
    "eu": Language("Basque", "basque"),
    "fa": Language("Persian", "persian"),
    "fi": Language("Finnish", "finnish"),
    "fr": Language("French", "french", "FRENCH"),
    "ga": Language("Irish", "irish"),
    "hi": Language("Hindi", "hindi"),
    "hu": Language("Hungarian", "hungarian"),
    "hy": Language("Armenian", "armenian"),
    "id": Language("Indonesian", "indonesian"),
    "it": Language("Italian", "italian", "ITALIAN"),
    "ja": Language("Japanese", blanks=False),
    "km": Language("Khmer", blanks=False),
    "ko": Language("Korean"),
    "lo": Language("Lao", blanks=False),
    "lt": Language("Lithuanian", "lithuanian"),
    "my": Language("Burmese", blanks=False),
    "ne": Language("Nepali", "nepali"),
    "nl": Language("Dutch", "dutch", "DUTCH", ("", "s", "en", "e")),
    "no": Language("Norwegian", "norwegian", "NORWEGIAN", _NORDIC),
    "pl": Language("Polish", "polish"),
    "pt": Language("Portuguese", "portuguese", "PORTUGUESE"),
    "ro": Language("Romanian", "romanian"),
    "ru": Language("Russian", "russian", "RUSSIAN"),
    "sr": Language("Serbian", "serbian"),
    "sv": Language("Swedish", "swedish", "SWEDISH", _NORDIC),
    "ta": Language("Tamil", "tamil"),
    "th": Language("Thai", blanks=False),
    "tr": Language("Turkish", "turkish", "TURKISH"),
    "zh": Language("Chinese", blanks=False),
}
# Codes of the detector that are forms of a language here, or say that a text is in none.
_ALIASES = {"nb": "no", "nn": "no", "yue": "zh", "wuu": "zh", "zxx": ""}


def name_of(code: str) -> str:
    """Return the name of a language, or its code if it has no analysis of its own; `undecided` for an empty one."""
    return LANGUAGES[code].name if code in LANGUAGES else code or "undecided"


def detected(text: str, codes: tuple[str, ...] = ()) -> str:
    """Return code of the language of a text, of `codes` if given; empty if not certain, and for what has no letters."""
    return _likeliest(_detector_of(codes) if codes else _detector(), text[:_READ], _SURE)


def of_texts(texts: Iterable[str]) -> str:
    """Return the language that some texts are analysed in together: that of their first characters, or `DEFAULT`."""
    start = ""
    for text in texts:
        start += f"{text[:_READ]}\n"
        if len(start) >= _READ:
            break
    return detected(start) or DEFAULT


def of_question(question: str, documents: Mapping[str, int]) -> str:
    """Return the language that a question is analysed in: one of those of the documents."""
    analysable = {code: count for code, count in documents.items() if code in LANGUAGES and count}
    if len(analysable) < 2:
        return next(iter(analysable), DEFAULT)
    most = max(analysable, key=lambda code: (analysable[code], code))
    return _likeliest(_detector_of(tuple(sorted(analysable))), question, _QUESTION) or most


def _likeliest(detector: Any, text: str, least: float) -> str:
    """Return the language of a text, forms of it together; empty if it is less probable than `least`."""
    probable: dict[str, float] = {}
    for code, probability in detector.rank(text):
        name = _ALIASES.get(code, code)
        probable[name] = probable.get(name, 0.0) + float(probability)
    code, probability = max(probable.items(), key=lambda item: item[1])
    return code if probability >= least else ""


@cache
def _detector() -> Any:
    from py3langid import langid

    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


@cache
def _detector_of(codes: tuple[str, ...]) -> Any:
    """Return a detector that knows some languages only."""
    from py3langid import langid

    detector = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    labels = set(detector.labels)
    detector.set_languages([c for c in labels if _ALIASES.get(c, c) in codes])
    return detector


@cache
def stop_words(name: str) -> frozenset[str]:
    """Return a list of bm25s by its name."""
    # The file alone: the package imports numba, for a fifth of the time of `mog search`.
    file = distribution("bm25s").locate_file("bm25s/stopwords.py")
    return frozenset(runpy.run_path(str(file))[f"STOPWORDS_{name}"])


@lru_cache(maxsize=1 << 18)
def parts(word: str, code: str) -> tuple[str, ...]:
    """Return the two words that a compound is made of, or none.

    Of several places where it can be cut, that is taken whose shorter part is longest, with the shortest link between
    them: "Verteidigungsleistung" is "verteidigung" and "leistung".
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
