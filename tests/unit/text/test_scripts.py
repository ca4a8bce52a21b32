"""Sentences and sizes of pieces by script."""

import pyarrow.parquet as pq
import pytest

from mog_assets.documents.documents import make_document, write_documents
from mog_assets.text.characters import characters
from mog_assets.text.chunkers import split_bucket
from mog_assets.text.cuts import sentence_ends

CHINESE = "苍鹭站在池塘边的浅水里，一动不动地等鱼。" * 40
RUSSIAN = "Цапля стоит на мелководье и ждёт рыбу. " * 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [("An otter swims.", 500), (RUSSIAN, 500), (CHINESE, 213), ("東京タワー", 200), ("서울에서", 200), ("", 500)],
)
def test_a_character_that_says_more_counts_for_more(text, expected):
    assert characters(text, 500) == expected


@pytest.mark.parametrize("chunker", ["sentences", "fixed", "recursive"])
def test_pieces_of_every_script_are_about_as_much_text(tmp_path, chunker):
    documents = [make_document("ru", "", RUSSIAN, {}, {}), make_document("zh", "", CHINESE, {}, {})]
    write_documents(documents, tmp_path / "documents")
    split_bucket(str(tmp_path / "documents"), str(tmp_path / "spans"), chunker, 500)
    spans = pq.read_table(tmp_path / "spans").to_pandas()
    longest = (spans["end"] - spans["start"]).groupby(spans["document"]).max().tolist()
    assert 400 < longest[0] <= 500 and 150 < longest[1] <= 213


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("苍鹭等鱼。它的巢很高！", 2),
        ("बगुला मछली का इंतज़ार करता है। उसका घोंसला ऊँचा है।", 2),
        ("أين يقف مالك الحزين؟ يقف في الماء.", 2),
        ("Հերոնը սպասում է։ Նա կանգնած է։", 2),
        ("ကြိုးကြာသည် ငါးကို စောင့်သည်။ သူ၏ အသိုက်သည် မြင့်သည်။", 2),
    ],
)
def test_sentences_end_with_the_full_stops_of_their_script(text, sentences):
    ends = sentence_ends(text)
    assert len(ends) == sentences and ends[-1] == len(text)
