"""Term counts of all levels, whatever the chunker and the text."""

import re
import sys
import tempfile
import unicodedata
from collections import Counter
from itertools import groupby
from pathlib import Path

import bm25s
import numpy as np
import pytest
import Stemmer
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st
from shared import SAMPLES

import mog_assets
from mog_assets.chunking.chunkers import CHUNKERS, unit_chars
from mog_assets.chunking.chunks import split_bucket
from mog_assets.chunking.layouts import bucket_layout
from mog_assets.chunking.sentences import units
from mog_assets.corpus.documents import make_document, write_documents
from mog_assets.retrieval.tokens import assemble, count_bucket, level_counts, query_terms, tokenise

LEVELS = 4
WORDS = st.sampled_from(
    [
        "otter ",
        "Otters",
        "swimming. ",
        "ΟΔΟΣ",
        "ΟΔΟΣ'ΑΣ. ",
        "İstanbul ",
        "東京。",
        "東京タワーに上る",
        "大",
        "iPhone手机 ",
        "서울에서 ",
        "น้ำตก",
        "ที่ dawn",
        "ភ្នំពេញ",
        "手กา",
        "don't",
        "\n\n",
        "x_1" * 9,
        "of the ",
        "Größe",
    ]
)
TEXTS = st.lists(
    WORDS | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs", "Cn"]), max_size=9), max_size=12
)


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


def places(text):
    """Place and text of every word and n-gram."""
    for n, run in groupby(enumerate(text), lambda item: width(item[1])):
        offsets, characters = zip(*run, strict=True)
        start, whole = offsets[0], "".join(characters)
        if n == 1:
            yield start, whole
        elif n:
            for i in range(max(1, len(whole) - n + 1)):
                yield start + i, whole[i : i + n]


def terms_of(texts):
    """Terms of each text with their numbers."""
    ids, terms = tokenise(texts)
    return [Counter(terms[i] for i in row) for row in ids]


# The learned chunker ends chunks where units end, as the semantic one does, and takes a trained model.
@pytest.mark.parametrize("chunker", sorted(CHUNKERS.keys() - {"learned"}))
@given(TEXTS.map("".join), st.integers(1, 40))
@example("Otters swim at dusk. " * 3, 7)
@example("ΑΣ'Α ΑΣ'Α", 3)
@example("iPhone手机在北京。", 1)
@example("น้ำตกสูงมาก", 1)
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_words_are_counted_on_every_level_in_the_chunk_that_they_start_in(chunker, text, finest_chars):
    assume(text.strip())
    with tempfile.TemporaryDirectory() as folder:
        documents, spans, terms, vectors = (Path(folder) / name for name in ("documents", "spans", "terms", "v.npy"))
        document = make_document("a", "Otters'", text, {}, {})
        write_documents([document], documents)
        takes = CHUNKERS[chunker].sentence_vectors
        if takes:
            rng = np.random.default_rng(0)
            np.save(
                vectors, rng.normal(size=(len(units(document.text, unit_chars(finest_chars))), 3)).astype(np.float16)
            )
        split_bucket(str(documents), str(spans), chunker, finest_chars, vectors=str(vectors) if takes else None)
        count_bucket(str(documents), str(spans), str(terms))
        layout = bucket_layout(documents, spans)
        found = assemble([terms], [layout])
    words = list(places(document.text))
    title, *counted = terms_of([document.title, *(word for _, word in words)])
    for level in range(1, LEVELS + 1):
        rows = level_counts(found["chunks"], found["titles"], layout, level).tocsr()
        _, starts, ends = layout.chunk_spans(np.arange(layout.count(level)), level)
        whole = terms_of(
            [f"{document.title}\n{document.text[start:end]}" for start, end in zip(starts, ends, strict=True)]
        )
        for row, start, end, literal in zip(rows, starts, ends, whole, strict=True):
            ours = Counter({found["terms"][term]: int(n) for term, n in zip(row.indices, row.data, strict=True)})
            expected = title.copy()
            for (offset, _), own in zip(words, counted, strict=True):
                expected += own if start <= offset < end else Counter()
            assert ours == expected
            if not any(offset < cut < offset + len(word) for offset, word in words for cut in (start, end)):
                assert ours == literal
            else:
                event("cut inside a word")


def test_capital_and_small_sigmas_are_the_same_letter():
    assert query_terms(["ΟΔΟΣ οδος οδοσ ΟΔΟΣ'ΑΣ"]) == [["οδοσ"] * 4 + ["ασ"]]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("北京大学", ["北京", "京大", "大学"]),
        ("大。", ["大"]),
        ("コーヒーを飲む。", ["コー", "ーヒ", "ヒー", "ーを", "を飲", "飲む"]),
        ("서울 에서", ["서울", "에서"]),
        ("น้ำตก กา", ["น้ำ", "้ำต", "ำตก", "กา"]),
        ("iPhone手机s 12度", ["iphon", "手机", "12", "度"]),
        ("ツアー・ガイド", ["ツア", "アー", "ガイ", "イド"]),
        ("๒๕๖๗ปี", ["๒๕๖๗", "ปี"]),
    ],
)
def test_scripts_without_blanks_have_n_grams(text, terms):
    assert query_terms([text]) == [terms]


def test_which_characters_are_of_which_script():
    every = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in {"Cn", "Cs", "Co"}]
    for character, terms in zip(every, query_terms([c * 4 for c in every]), strict=True):
        if (n := width(character)) > 1:
            assert terms == [character * n] * (5 - n), hex(ord(character))
        else:
            assert len(terms) <= 1, hex(ord(character))


def test_words_of_other_scripts_are_those_of_bm25s():
    texts = [path.read_text(encoding="utf-8") for path in sorted(SAMPLES.rglob("*.*"))]
    texts += ["Größe, naïve façades – ‘ΟΔΟΣ’ и дома", "x_1 a b İstanbul"]
    lower = [text.lower().replace("ς", "σ") for text in texts]
    plain = bm25s.tokenize(
        lower, lower=False, stopwords="en", stemmer=Stemmer.Stemmer("english"), return_ids=False, show_progress=False
    )
    assert len(texts) > 20 and query_terms(texts) == plain


def test_a_chinese_question_finds_its_passage(tmp_path, materialise_project, make_project):
    texts = {
        "heron": "苍鹭站在池塘边的浅水里,一动不动地等鱼。它的巢在高大的松树上。",
        "bridge": "这座石桥建于宋代,长约三百米。桥面用花岗岩铺成。",
        "tea": "新茶在清明以前采摘,当天就要炒干。茶叶放在阴凉的地方保存。",
    }
    (tmp_path / "docs").mkdir()
    for name, text in texts.items():
        (tmp_path / "docs" / f"{name}.txt").write_text(text, encoding="utf-8")
    project = make_project(tmp_path, {"corpora": {"notes": {"path": "docs"}}, "methods": ["fixed-1"], "levels": 1})
    assert materialise_project(project.settings).failures == []
    with mog_assets.open(project.config, refresh=None) as opened:
        passages = opened.retrieve("茶叶是什么时候采摘的?", method="fixed-1").passages
        assert passages[0].doc == "tea.txt"
        assert [p.doc for p in opened.retrieve("石桥有多长?", method="fixed-1").passages] == ["bridge.txt"]
