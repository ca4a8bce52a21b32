"""What the terms of words are: scripts without blanks, languages, what is typed exactly."""

import re
import sys
import unicodedata
from collections import Counter

import bm25s
import pytest
import Stemmer
from shared import SAMPLES

from mog_assets.text.terms import folded, terms_of

# Characters of an n-gram, by how the names of letters and marks begin.
WIDTHS = {
    "CJK UNIFIED": 2,
    "CJK COMPATIBILITY": 2,
    "IDEOGRAPHIC": 2,
    "HIRAGANA": 2,
    "KATAKANA": 2,
    "COMBINING KATAKANA": 2,
    "HALFWIDTH KATAKANA": 2,
    "HENTAIGANA": 2,
    "HANGUL": 2,
    "HALFWIDTH HANGUL": 2,
    "THAI": 3,
    "LAO": 3,
    "KHMER": 3,
    "MYANMAR": 3,
}


def width(character):
    """Characters of an n-gram that has a character; 1 for characters of words, 0 for what is between them."""
    if unicodedata.category(character) in {"Lm", "Lo", "Mn", "Mc", "Nl"}:
        name = unicodedata.name(character, "")
        if n := next((n for start, n in WIDTHS.items() if name.startswith(start)), 0):
            return n
    return int(re.match(r"\w", character) is not None)


def test_capital_and_small_sigmas_are_the_same_letter():
    assert terms_of(["ΟΔΟΣ οδος οδοσ ΟΔΟΣ'ΑΣ"]) == [["οδοσ"] * 4 + ["ασ"]]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("北京大学", ["北京", "京大", "大学"]),
        ("コーヒーを飲む。", ["コー", "ーヒ", "ヒー", "ーを", "を飲", "飲む"]),
        ("서울 에서", ["서울", "에서"]),
        ("น้ำตก กา", ["น้ำ", "้ำต", "ำตก", "กา"]),
        ("iPhone手机s 12度", ["iphon", "手机", "12", "度"]),
        ("ツアー・ガイド", ["ツア", "アー", "ガイ", "イド"]),
        ("๒๕๖๗ปี", ["๒๕๖๗", "ปี"]),
    ],
)
def test_scripts_without_blanks_have_n_grams(text, terms):
    assert terms_of([text]) == [terms]


def test_which_characters_are_of_which_script():
    every = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in {"Cn", "Cs", "Co"}]
    for character, terms in zip(every, terms_of([c * 4 for c in every]), strict=True):
        if (n := width(character)) > 1:
            expected = character * n if n == 3 else folded(character * n)
            assert terms == [expected] * (5 - n), hex(ord(character))
        else:
            assert len(terms) <= 1, hex(ord(character))


def test_english_terms_are_those_of_bm25s_and_what_is_typed_exactly():
    texts = [path.read_text(encoding="utf-8") for path in sorted(SAMPLES.rglob("*.*"))]
    texts += ["naïve façades – ‘ΟΔΟΣ’ и дома", "x_1 a b"]
    lower = [text.lower().replace("ς", "σ") for text in texts]
    plain = bm25s.tokenize(
        lower, lower=False, stopwords="en", stemmer=Stemmer.Stemmer("english"), return_ids=False, show_progress=False
    )
    assert len(texts) > 20
    for text, expected, terms in zip(texts, plain, terms_of(texts), strict=True):
        more = Counter(terms) - Counter(expected)
        assert not Counter(expected) - Counter(terms)
        assert all(re.search(r"[^a-z]", term) for term in more), (text[:40], more)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("git rebase --rebase-merges -a", ["git", "rebas", "--rebase-merges", "rebas", "merg", "-a"]),
        ("C++, F# and R&D", ["c++", "f#", "r&d"]),
        ("sqlite3_prepare_v2", ["sqlite3_prepare_v2", "sqlite3", "prepar", "v2"]),
        ("getElementById", ["getelementbyid", "get", "element", "byid"]),
        ("2.0.1 costs 281,000", ["2.0.1", "cost", "281", "281,000", "000"]),
        ("500mg of IL-2 in UTF-8", ["500mg", "500", "mg", "il", "il-2", "utf", "utf-8"]),
        ("well-known pre- and post-war 1990-1995", ["well", "known", "pre", "post", "war", "1990", "1995"]),
        ("人口は2.5億円、C++で", ["人口", "口は", "2.5", "億円", "c++", "で"]),
    ],
)
def test_what_is_typed_exactly_is_a_term_as_a_whole_and_in_parts(text, terms):
    assert terms_of([text]) == [terms]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("de", "Die Häuser der Straßen", "ein Haus, eine Strasse"),
        ("fr", "les chevaux nationaux", "le cheval national"),
        ("ru", "большие города", "большого города"),
        ("ar", "الكتاب", "كتاب"),
        ("zh", "ＡＢＣ公司", "ABC公司"),
    ],
)
def test_forms_of_a_word_are_one_term_in_its_language(language, one, other):
    first, second = terms_of([one, other], language)
    assert set(first) == set(second) and first


@pytest.mark.parametrize(
    ("language", "compound", "word"),
    [
        ("de", "Verteidigungsleistung", "Verteidigungen"),
        ("de", "Donaudampfschiff", "Dampfschiffe"),
        ("nl", "verkeersveiligheid", "verkeer"),
        ("sv", "järnvägsstation", "station"),
    ],
)
def test_a_compound_is_also_its_parts(language, compound, word):
    whole, (part, *_) = terms_of([compound, word], language)
    assert part in whole and len(whole) == 3


def test_words_that_are_no_compounds_have_no_parts():
    assert [len(row) for row in terms_of(["Vereinigten", "Universitäten", "Wissenschaftler"], "de")] == [1, 1, 1]
