"""Texts in encodings other than UTF-8: by mark, declaration, setting, or because no other encoding fits."""

import json
import random
import tracemalloc
import zlib

import pytest

from mog_assets.config import CorpusSettings
from mog_assets.documents.decoding import decode
from mog_assets.documents.reading import read_corpus
from mog_assets.documents.worker import Limits

KOREAN = (
    "박물관은 화요일부터 일요일까지 문을 엽니다. 입장권은 입구에서 살 수 있으며, 어린이는 무료입니다. "
    "사진은 찍어도 되지만 삼각대는 쓸 수 없습니다."
)
JAPANESE = (
    "図書館の本は二週間まで借りられます。返却が遅れた場合は、次の貸し出しが一週間できません。雑誌は館内でどうぞ。"
)
CHINESE = "图书馆的书可以借两个星期。逾期归还的读者一个星期内不能再借。杂志只能在馆内阅读，请保持安静。"
TAIWANESE = "圖書館的書可以借兩個星期。逾期歸還的讀者一個星期內不能再借。雜誌只能在館內閱讀，請保持安靜。"
GERMAN = "Die Bücherei öffnet täglich um zehn Uhr. Für Schüler ist die Ausleihe kostenlos, größere muss man bestellen."
POLISH = "Książki można wypożyczyć na dwa tygodnie. Spóźnieni czytelnicy płacą karę; dzieci są zwolnione z opłat."
GREEK = (
    "Η βιβλιοθήκη ανοίγει κάθε μέρα στις δέκα. Τα βιβλία επιστρέφονται μέσα σε δύο εβδομάδες, αλλιώς υπάρχει πρόστιμο."
)
TURKISH = (
    "Kütüphane her gün saat onda açılır. Kitaplar iki hafta içinde geri verilmelidir, çocuklar için ücret alınmaz."
)
SPANISH = "El niño corrió rápidamente hacia la montaña. ¿Dónde está el camión? Mañana será otro día, señor."
LEGACY = [
    *((KOREAN, "cp949"), (KOREAN, "iso2022_kr"), (JAPANESE, "cp932"), (JAPANESE, "euc_jp"), (CHINESE, "gb18030")),
    *((TAIWANESE, "big5"), (GERMAN, "cp1252"), (POLISH, "cp1250"), (POLISH, "iso8859_2"), (GREEK, "iso8859_7")),
    *((TURKISH, "cp1254"), (SPANISH, "cp1252")),
]


def read(folder, **limits):
    reading = read_corpus(folder, limits=Limits(**limits))
    documents = {d.id: d for d in reading.documents}
    notes = {i: json.loads(d.metadata)["mog"] for i, d in documents.items()}
    return documents, notes, {q.place: q.reason for q in reading.skipped}


@pytest.mark.parametrize(("text", "encoding"), LEGACY)
def test_legacy_text_is_read_where_no_other_encoding_fits(tmp_path, text, encoding):
    (tmp_path / "old.txt").write_bytes(text.encode(encoding))
    # Markup and English names say nothing of the encoding.
    (tmp_path / "long.txt").write_bytes(f"# Chapter 1 (v2)\n<b>{text}</b>\nWindows, Git\n{text * 20}".encode(encoding))
    documents, notes, _ = read(tmp_path)
    assert documents["old.txt"].text == text
    assert documents["long.txt"].text.count(text) == 21
    assert text.encode(notes["old.txt"]["encoding"])


def test_long_legacy_text_takes_little_more_memory_than_itself():
    raw = ("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5000).encode("cp1251")
    decode(raw[:1000])
    tracemalloc.start()
    try:
        assert decode(raw)[1] == "cp1251"
        assert tracemalloc.get_traced_memory()[1] < 20 * len(raw)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "raw",
    [
        zlib.compress(KOREAN.encode() * 9),
        random.Random(1).randbytes(3000),
        GERMAN.encode("mac_roman"),
        "Çocuklar bahçede oynuyor. Güneşli bir günde şehre gittik.".encode("iso8859_2"),
        "名前 ".encode("cp932"),
    ],
)
def test_what_may_be_anything_is_refused(raw):
    with pytest.raises(ValueError, match="save it as UTF-8|binary content"):
        decode(raw)


@pytest.mark.parametrize(
    ("head", "encoding", "text"),
    [
        ('<meta charset="Shift_JIS">', "cp932", "①番"),
        ("<META content='text/html; charset=ks_c_5601-1987' http-equiv=Content-Type>", "cp949", "펲 문"),
        ('<?xml version="1.0" encoding="iso-8859-5"?>', "iso8859-5", "Это"),
        ("<meta charset=iso-8859-1>", "cp1252", "„Ö“"),
    ],
)
def test_page_is_read_in_the_encoding_that_it_declares(tmp_path, head, encoding, text):
    (tmp_path / "a.html").write_bytes(f"{head}<body><p>{text}</p></body>".encode(encoding))
    documents, notes, _ = read(tmp_path)
    assert documents["a.html"].text == text
    assert notes["a.html"]["encoding"] == encoding


def test_utf8_and_certain_texts_are_not_misled_by_declarations(tmp_path):
    (tmp_path / "a.html").write_text(f"<meta charset=euc-kr><p>{KOREAN}</p>", encoding="utf-8")
    (tmp_path / "b.html").write_bytes(f"<meta charset=utf-8><p>{KOREAN}</p>".encode("cp949"))
    (tmp_path / "c.html").write_bytes(f"<meta charset=nonsense><p>{KOREAN}</p>".encode("cp949"))
    documents, _, _ = read(tmp_path)
    assert {d.text for d in documents.values()} == {KOREAN}


def test_few_bad_bytes_leave_a_utf8_text_with_a_note(tmp_path):
    text = KOREAN.encode()
    (tmp_path / "a.txt").write_bytes(text[:9] + b"\xff" + text[9:])
    (tmp_path / "b.txt").write_bytes(text[:-3])
    (tmp_path / "c.csv").write_bytes(f'id,text\nx,"{KOREAN}"\ny,'.encode() + text[:-2].replace(b",", b"") + b"\n")
    documents, notes, reasons = read(tmp_path)
    assert reasons == {}
    assert documents["a.txt"].text.replace("\ufffd", "") == KOREAN
    assert (notes["a.txt"]["unreadable characters"], notes["y"]["unreadable characters"]) == (1, 1)
    assert "unreadable characters" not in notes["x"]


def test_setting_names_the_encoding_of_what_is_not_utf8(tmp_path):
    short = "예약"
    (tmp_path / "a.txt").write_bytes(short.encode("cp949"))
    (tmp_path / "b.csv").write_bytes(f"id,text\nb,{short}\n".encode("cp949"))
    (tmp_path / "c.jsonl").write_bytes(json.dumps({"id": "c", "text": short}, ensure_ascii=False).encode("cp949"))
    (tmp_path / "d.org").write_bytes(f"# {short}\n".encode("cp949"))
    (tmp_path / "e.txt").write_text(short, encoding="utf-8")
    (tmp_path / "f.txt").write_text(short, encoding="utf-16")
    (tmp_path / "g.txt").write_bytes(b"\xff\xff")
    documents, notes, reasons = read(tmp_path, encoding="euc-kr")
    assert {i: d.text.strip("# \n") for i, d in documents.items()} == dict.fromkeys(
        ("a.txt", "b", "c", "d.org", "e.txt", "f.txt"), short
    )
    assert notes["a.txt"]["encoding"] == "cp949"
    assert reasons == {
        "g.txt": "expected cp949 (encoding of the corpus), got byte 0xff at 0: correct it, or save as UTF-8"
    }


@pytest.mark.parametrize("name", ["nonsense", "hex", "rot13", ""])
def test_setting_is_the_name_of_an_encoding(name):
    with pytest.raises(ValueError, match="an encoding of Python, such as cp949"):
        CorpusSettings(path="docs", encoding=name)
    assert CorpusSettings(path="docs", encoding="shift_jis").encoding == "shift_jis"
