"""Words of a text that say what it is about."""

from __future__ import annotations

from mog_assets.text.languages import DEFAULT, LANGUAGES, stop_words
from mog_assets.text.terms import folded

# Lists of stop words that have question words, too, where that of the terms has none.
_ASKING = {"en": "EN_PLUS"}
# What stands around words and is none of them, as `+` in C++ is.
_AROUND = "?!.,;:…\"'“”„‘’«»()[]¿¡？。，！、；：「」"


def content_words(text: str, language: str = DEFAULT) -> list[str]:
    """Return the words of a text, as they are written, that are neither stop words of a language nor ask."""
    name = _ASKING.get(language, LANGUAGES[language].stop if language in LANGUAGES else "")
    stop = stop_words(name) if name else frozenset[str]()
    return [word for part in text.split() if (word := part.strip(_AROUND)) and folded(word) not in stop]
