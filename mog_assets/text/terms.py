"""The terms that words of a text stand for, by its language.

Terms are stems of words; n-grams of characters where a script has no blanks between words; the parts of compounds; and
what is typed exactly, such as options, versions, numbers and names in code, whole and in parts.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import version
from itertools import groupby

from mog_assets.text.characters import BIGRAMS, TRIGRAMS, WITHOUT_BLANKS, plain
from mog_assets.text.languages import DEFAULT, LANGUAGES, Language, parts, stop_words

# A shorter word has too many neighbours to be taken for one of them.
SHORTEST = 5
LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
# Lists of stop words that have question words, too, where that of the terms has none.
_ASKING = {"en": "EN_PLUS"}
# What stands around words and is none of them, as `+` in C++ is.
_AROUND = "?!.,;:…\"'“”„‘’«»()[]¿¡？。，！、；：「」"

# Part of the fingerprint of all term counts.
ANALYSIS = " ".join(map(version, ("py3langid", "PyStemmer", "simplemma"))) + (
    " words of two characters and more with their marks, case folded, stop words and Snowball stems by language, parts "
    "of compounds; options, versions, numbers and names in code whole and in parts; bigrams of Han, kana and Hangul, "
    "trigrams of Thai, Lao, Khmer and Myanmar; without hidden characters; 2"
)
_RUN = re.compile(f"([{BIGRAMS}])|([{TRIGRAMS}])")
_ASCII_WORD = re.compile(r"\w\w+")
# What is typed exactly, as a whole; its words are terms, too.
EXACT = re.compile(
    r"(?<![\w-])--?[A-Za-z]\b(?!-)|(?<![\w-])--[A-Za-z]\w*(?:-\w+)*"  # -a, --rebase-merges
    r"|(?<!\w)[A-Za-z]\w?(?:\+\+|#)(?!\w)"  # C++, F#
    r"|(?<!\w)[A-Za-z]\w?&\w{1,2}(?!\w)"  # R&D, AT&T
    r"|(?<![\w.,])v?\d+(?:[.,]\d+)+\w*"  # 2.0.1, 0.05, 281,000
    r"|(?<!\w)[A-Za-z]+-\d\w*",  # utf-8, ORA-00942, IL-2
    re.ASCII,
)
# Where a word in a name begins, as in readFile. It looks back: a run of letters would be tried from each of them.
_CAMEL = re.compile(r"(?<=[a-z][a-z])(?=[A-Z][a-z])")
_UNIT = re.compile(r"(\d{2,})(bit|byte|cm|fps|gb|ghz|gib|hz|kb|kg|khz|km|kw|kwh|mb|mg|mhz|mib|ml|mm|ms|nm|tb|px)")
# A shorter word is no compound.
_COMPOUND = 8
_NONE = Language("")


@cache
def _words() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return matches words of texts without n-grams; and words, and runs of characters that n-grams are made of."""
    marks = _class(c for c in range(128, sys.maxunicode) if unicodedata.category(chr(c)) in {"Mn", "Mc"})
    letter = rf"[^\W{BIGRAMS}{TRIGRAMS}]"
    word = rf"{letter}(?:{letter}|(?![{BIGRAMS}{TRIGRAMS}])[{marks}])+"
    return re.compile(rf"\w[\w{marks}]+"), re.compile(rf"([{BIGRAMS}]+)|([{TRIGRAMS}]+)|{word}")


def _class(points: Iterable[int]) -> str:
    """Return characters as ranges of a character class, ascending."""
    runs = [[point for _, point in run] for _, run in groupby(enumerate(points), lambda item: item[1] - item[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


def _occurrences(text: str) -> list[tuple[int, str]]:
    """Return where words, n-grams and what is typed exactly start in a text, and what they are, in order."""
    given, origin = text, None
    if not text.isascii():
        text, origin = plain(text)
    if text.isascii():
        words = [(m.start(), m[0]) for m in _ASCII_WORD.finditer(text)]
    elif not WITHOUT_BLANKS.search(text):
        words = [(m.start(), m[0]) for m in _words()[0].finditer(text)]
    else:
        words = []
        for m in _words()[1].finditer(text):
            n, run = m.lastindex, m[0]
            if n is None:
                words.append((m.start(), run))
            else:
                words += [(m.start() + i, run[i : i + n + 1]) for i in range(max(len(run) - n, 1))]
    exact = [(m.start(), m[0]) for m in EXACT.finditer(text)]
    every = sorted(words + exact) if exact else words
    return every if origin is None or text is given else [(origin[start], word) for start, word in every]


@cache
def _stemmer(name: str) -> Callable[[Sequence[str]], list[str]]:
    import Stemmer

    stems: Callable[[Sequence[str]], list[str]] = Stemmer.Stemmer(name).stemWords
    return stems


def folded(word: str) -> str:
    """Return a word without case, final sigmas and forms of letters that are the same letter."""
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold()).replace("i\u0307", "i")


def stem(word: str) -> str:
    """Return the stem of an English word in lower case, as in term counts."""
    return _stemmer("english")([word.replace("ς", "σ")])[0]


def _of_word(word: str, code: str) -> list[str]:
    """Return the terms of a word or n-gram as it is written: the whole first."""
    language, lower = LANGUAGES.get(code, _NONE), folded(word)
    if EXACT.fullmatch(word):
        return [lower]
    if run := _RUN.match(word):
        # Thai vowels would come apart.
        return [word if run.lastindex == 2 else lower]
    if language.stop and lower in stop_words(language.stop):
        return []
    pieces = [lower]
    if "_" in word:
        pieces += [piece for piece in lower.split("_") if len(piece) > 1]
    if _CAMEL.search(word):
        pieces += folded(_CAMEL.sub(" ", word)).split()
    if unit := _UNIT.fullmatch(lower):
        pieces += unit.groups()
    if language.compounds and len(lower) >= _COMPOUND:
        pieces += parts(lower, code)
    distinct = list(dict.fromkeys(pieces))
    return _stemmer(language.stemmer)(distinct) if language.stemmer else distinct


def located(texts: Sequence[str], language: str = DEFAULT) -> tuple[list[list[int]], list[list[int]], list[str]]:
    """Return the terms of texts in a language, and where the words start that they are of.

    Returns:
        Of each text the offsets of terms, ascending; as many ids of terms; and the terms by id.
    """
    ids: dict[str, int] = {}
    of_words: dict[str, list[int]] = {}
    starts, rows = [], []
    for text in texts:
        places, row = [], []
        for start, word in _occurrences(text):
            of_word = of_words.get(word)
            if of_word is None:
                of_word = of_words[word] = [ids.setdefault(term, len(ids)) for term in _of_word(word, language)]
            places += [start] * len(of_word)
            row += of_word
        starts.append(places)
        rows.append(row)
    return starts, rows, list(ids)


def tokenise(texts: Sequence[str], language: str = DEFAULT) -> tuple[list[list[int]], list[str]]:
    """Return token ids of each text in a language, and the terms that the ids stand for."""
    _, rows, terms = located(texts, language)
    return rows, terms


def terms_of(texts: Sequence[str], language: str = DEFAULT) -> list[list[str]]:
    """Return terms of each text in a language, in order, repetitions included."""
    rows, terms = tokenise(texts, language)
    return [[terms[i] for i in row] for row in rows]


def words_in(text: str) -> list[str]:
    """Return the words of a text, case folded, that a misspelt word may be taken for."""
    words = map(folded, LETTERS.findall(text))
    return [word for word in words if len(word) >= SHORTEST - 1 and word.isalpha() and is_word(word)]


def is_word(term: str) -> bool:
    """Return whether a term is a word, and no n-gram of a script without blanks."""
    return WITHOUT_BLANKS.search(term) is None


def content_words(text: str, language: str = DEFAULT) -> list[str]:
    """Return the words of a text, as they are written, that are neither stop words of a language nor ask."""
    name = _ASKING.get(language, LANGUAGES[language].stop if language in LANGUAGES else "")
    stop = stop_words(name) if name else frozenset[str]()
    return [word for part in text.split() if (word := part.strip(_AROUND)) and folded(word) not in stop]
