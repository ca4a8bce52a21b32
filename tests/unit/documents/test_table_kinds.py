"""Tables as programs export them: what is read of each row, and that no row is lost without a word."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mog_assets.documents.reading import read_corpus
from mog_assets.documents.tables import Row, read_rows
from mog_assets.documents.worker import Limits
from mog_assets.questions.records import read_records


def table(text, name="x.csv"):
    """Rows of a table as their values, and the others as number and reason."""
    found = list(read_rows(io.BytesIO(text.encode()), name, 1_000_000))
    good = [row for row in found if isinstance(row, Row)]
    return good, {row.number: row.reason for row in found if not isinstance(row, Row)}


def cells(text, name="x.csv"):
    """The values of rows that are all read."""
    good, wrong = table(text, name)
    assert not wrong
    return [[value for _, value in row.pairs] for row in good]


def test_columns_of_one_name_are_one_field_with_all_values(tmp_path):
    (tmp_path / "jira.csv").write_text('Key,Labels,Labels,Comment,Comment\nM-1,urgent,stone,Check,"Torn, replaced"\n')
    (document,) = read_corpus(tmp_path).documents
    assert document.text == "Key: M-1\nLabels: urgent\nLabels: stone\nComment: Check\nComment: Torn, replaced"
    assert json.loads(document.metadata)["Labels"] == ["urgent", "stone"]
    assert cells("id,text,Text\n1,a,b\n") == [["1", "a", "b"]]


def numbered(first, last, columns="{n},Row {n} has text"):
    return "".join(columns.format(n=n) + "\n" for n in range(first, last))


@pytest.mark.parametrize(
    ("stray", "text"),
    [
        ('3,"5 inch stones\n', '"5 inch stones'),
        ('3,"Big" wheels\n', '"Big" wheels'),
        ('3,wheels of 5"\n', 'wheels of 5"'),
    ],
)
@pytest.mark.parametrize("end", ["", '1000,"7 inch\n', '1000,"quoted, well"\n'])
def test_a_quotation_mark_that_is_not_closed_costs_no_row(stray, text, end):
    good, wrong = table("id,text\n" + numbered(1, 3) + stray + numbered(4, 1000) + end)
    assert not wrong and len(good) == 999 + bool(end)
    assert good[2].values == {"id": "3", "text": text}
    assert good[-1].values["id"] == str(999 + bool(end))


@pytest.mark.parametrize(
    "text",
    [
        "1, first step\n2, second step\n3, third",
        "\n".join(f"Line {n}, of a poem" for n in range(20)),
        'He said "no",\n\nand left\n',
        "One\n" * 2_000,
    ],
)
def test_lines_of_a_quoted_text_stay_together(text):
    quoted = text.replace('"', '""')
    assert cells(f'id,text\n1,"{quoted}"\n2,end\n') == [["1", text], ["2", "end"]]


def test_the_end_of_a_table_that_was_cut_is_told():
    good, wrong = table('id,text\n1,One.\n2,"Two, and,\nmore, of, it\nand')
    assert len(good) == 1 and list(wrong) == [3] and "3 lines above" in wrong[3]


ABOVE = {
    "titles": "Report of the mill\nGenerated 2024-05-01\n\nArticle,Colour,Price\nQ1,red,12\nQ2,blue,13\n",
    "padded": "Report;;;\nDate;2024-05-01;;\n;;;\nArticle;Colour;Price;Unit\nQ1;red;12,5;kg\nQ2;blue;13;kg\n",
    "bank": '"Konto:";"DE12"\n\n"Stand vom 1.1.:";"1.234,56 EUR"\n\n"Tag";"Text";"Wer";"Betrag"\n'
    '"2.1.";"a";"b";"-5,0"\n',
    "comments": "# ---\n# Pages\n# ---\nPage,Views,Users\n/a,10,3\n/b,7,2\n",
    "Japanese": "月次報告\n作成日：2024年5月1日\n\n品番,品名,数量\nA1,石臼,3\nA2,油,5\n",
}


@pytest.mark.parametrize("kind", ABOVE)
def test_lines_above_the_header_are_told_and_the_header_is_found(kind):
    good, wrong = table(ABOVE[kind])
    header = {"titles": "Article", "padded": "Article", "bank": "Tag", "comments": "Page", "Japanese": "品番"}[kind]
    assert good and all(row.pairs[0][0] == header for row in good)
    assert wrong and set(wrong.values()) == {"a line above the names of the columns: not read"}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (",text,n\n0,hello,1\n1,world,2\n", {"column 1": "0", "text": "hello", "n": "1"}),
        ("id;text\n" + "".join(f"{n};one, two, {n}\n" for n in range(9)), {"id": "0", "text": "one, two, 0"}),
        ("text\nOne, two.\nThree, four; five.\n", {"text": "One, two."}),
        ("Day;Sum;Total\n1.2.;1,50;2,50\n2.2.;2,50;5,00\n", {"Day": "1.2.", "Sum": "1,50", "Total": "2,50"}),
        ('\n\n"id","text"\n"1","x\ny"\n', {"id": "1", "text": "x\ny"}),
        ("a,b,c\n1,2,,,\n", {"a": "1", "b": "2", "c": ""}),
    ],
)
def test_tables_without_titles_keep_their_first_row_as_header(text, first):
    good, wrong = table(text)
    assert not wrong and good[0].values == first


@pytest.mark.parametrize("told", ["sep=;\n", "SEP=;\r\n", '"sep=;"\n'])
def test_a_first_line_says_the_delimiter(told):
    assert cells(f"{told}Article;Price\nQ1;12,50\nQ2;13,00\n") == [["Q1", "12,50"], ["Q2", "13,00"]]


def test_quotation_marks_between_tabs_are_read_as_either_kind_has_them():
    plain = 'id\ttext\n1\t"Heroes" is an album\n2\the said "hi\n3\t"not closed\n4\tend\n'
    assert [row[1] for row in cells(plain, "x.tsv")] == ['"Heroes" is an album', 'he said "hi', '"not closed', "end"]
    quoted = 'id\ttext\n1\t"a\tb"\n2\t"one\ntwo"\n3\t"say ""hi"""\n'
    assert [row[1] for row in cells(quoted, "x.tsv")] == ["a\tb", "one\ntwo", 'say "hi"']
    assert cells('id\ttext\tk\n1\t"begin\tx\n2\tmiddle\ty\n3\tend"\tz\n', "x.tsv")[1] == ["2", "middle", "y"]


def test_a_row_that_is_read_as_it_is_written_is_noted(tmp_path):
    (tmp_path / "a.csv").write_text('id,text\n1,"5 inch\n2,fine\n')
    notes = [json.loads(document.metadata)["mog"] for document in read_corpus(tmp_path).documents]
    assert [note.get("quotation marks not closed") for note in notes] == [1, None]


def test_tables_of_questions_are_read_by_the_same_rules(tmp_path):
    file = tmp_path / "questions.csv"
    file.write_text('sep=;\nid;question;answer\n1;"5 inch?;yes\n2;How, many?;12,5\n')
    records = [record for _, record in read_records(file)]
    assert [record["question"] for record in records] == ['"5 inch?', "How, many?"]


def test_ids_of_lines_may_be_numbers_and_texts_have_usual_names(tmp_path):
    rows = [
        {"id": 7, "text": "Seven.", "title": 1984},
        {"id": 7.5, "content": "Half."},
        {"id": "b", "body": "B.", "title": None},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [(d.id, d.title, d.text) for d in read_corpus(tmp_path).documents] == [
        ("7", "1984", "Seven."),
        ("7.5", "", "Half."),
        ("b", "", "B."),
    ]


@pytest.mark.whole
def test_columns_and_keys_that_are_called_otherwise_are_named(tmp_path):

    (tmp_path / "a.jsonl").write_text('{"key": 1, "answer": "A.", "head": "H"}\n{"id": "x", "note": "B."}\n')
    (tmp_path / "b.csv").write_text("key,answer,head,by\n2,B.,H,me\n")
    pq.write_table(pa.table({"key": [3], "answer": ["C."], "head": ["H"]}), tmp_path / "c.parquet")
    columns = (("id", "key"), ("text", "answer"), ("title", "head"))
    reading = read_corpus(tmp_path, limits=Limits(columns=columns))
    assert [(d.id, d.title, d.text) for d in reading.documents] == [
        ("1", "H", "A."),
        ("2", "H", "B."),
        ("3", "H", "C."),
    ]
    (skipped,) = reading.skipped
    assert "name other keys under `columns` of the corpus" in skipped.reason
