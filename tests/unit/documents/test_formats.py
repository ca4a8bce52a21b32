"""Files of questions: JSON Lines, tables and Parquet become the same records, and no line stops a file."""

import gzip
import json
import os
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mog_assets.questions.records import MOST, read_records, used_columns
from mog_assets.resources.errors import MogError


@pytest.fixture
def file(tmp_path):
    """Write a file; `.gz` is packed."""

    def write(name, content):
        raw = content if isinstance(content, bytes) else content.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write


@pytest.fixture
def parquet(tmp_path):
    def write(name="q.parquet", /, **columns):
        path = tmp_path / name
        pq.write_table(pa.table(columns), path)
        return path

    return write


def records(path, columns=None):
    return [found for _, found in read_records(path, columns) if isinstance(found, dict)]


def problems(path, columns=None):
    return {place: found for place, found in read_records(path, columns) if isinstance(found, str)}


HEADER = "id,question,split,kind,answer,long_answer,aliases,options,quote,doc,corpus,start,end,docs\n"
WANTED = {
    "id": "7",
    "question": "How long must soap cure?",
    "split": "dev",
    "kind": "fact",
    "answer": "four weeks",
    "aliases": ["4 weeks", "a month"],
    "options": {"A": "four", "B": "five"},
    "corpus": "craft",
    "evidence": [{"quote": "Soap cures, slowly.", "corpus": "craft", "doc": "soap.md"}],
    "docs": {"craft/soap.md": 2, "craft/lye.md": 1, "craft/oil.md": 0},
}


@pytest.mark.whole
def test_table_and_parquet_become_the_record_of_a_json_line(file, parquet):
    row = (
        '7,How long must soap cure?,dev,fact,four weeks,,4 weeks | a month,"{""A"": ""four"", ""B"": ""five""}",'
        '"Soap cures, slowly.",soap.md,craft,,,soap.md=2|craft/lye.md|oil.md = 0\n'
    )
    table = parquet(
        id=[7],
        question=[WANTED["question"]],
        split=["dev"],
        kind=["fact"],
        corpus=["craft"],
        answer=["four weeks"],
        long_answer=pa.array([None], pa.string()),
        aliases=[WANTED["aliases"]],
        options=[WANTED["options"]],
        evidence=[[{**WANTED["evidence"][0], "start": None}]],
        docs=pa.array([list(WANTED["docs"].items())], pa.map_(pa.string(), pa.int64())),
    )
    lines = file("q.jsonl", json.dumps(WANTED))
    semicolons = file("s.csv", "id;question\n7;How, then?\n")
    for path in (file("q.csv", HEADER + row), file("q.csv.gz", HEADER + row), table, lines):
        assert records(path) == [WANTED], path
    assert records(file("q.tsv", "id\tquestion\n7\tHow, then?\n")) == records(semicolons)
    assert [place for place, _ in read_records(table)] == ["q.parquet:1"]
    assert [place for place, _ in read_records(semicolons)] == ["s.csv:2"]


@pytest.mark.whole
def test_offsets_with_their_document_are_evidence_and_count_before_a_quote(file, parquet):
    wanted = [{"doc": "a.md", "start": 3, "end": 9}]
    table = file("q.csv", "question,doc,start,end,quote\nWhy?,a.md,3,9,\nHow?,a.md,3.0,9.0,three\n")
    assert [r["evidence"] for r in records(table)] == [wanted, wanted]
    frame = parquet(question=["Why?"], doc=["a.md"], start=[3.0], end=[9.0], quote=[float("nan")])
    assert records(frame)[0]["evidence"] == wanted


def test_a_document_without_a_place_is_a_relevant_document(file):
    path = file("q.csv", "question,doc,corpus\nWhy?,a.md,\nHow?,a.md,craft\n")
    assert [r["docs"] for r in records(path)] == [{"a.md": 1}, {"craft/a.md": 1}]


def test_prefix_and_suffix_belong_to_a_quote(file):
    path = file("q.csv", "question,quote,prefix,suffix\nWhy?,red,is ,\nHow?,,is ,\n")
    assert [r["evidence"] for r in records(path)] == [[{"quote": "red", "prefix": "is "}]]
    assert problems(path) == {"q.csv:3": "prefix: expected one quote beside it, got 0"}


def test_rows_with_one_id_are_one_question_with_all_evidence(file):
    path = file(
        "q.csv",
        "id,question,quote,doc,docs\n1,Why?,red,a,\n2,How?,,,x\n1,,blue,b,c=2\n1,Why?,red,d,\n2,How?,,,y|x\n",
    )
    assert records(path) == [
        {
            "id": "1",
            "question": "Why?",
            "evidence": [
                {"quote": "red", "doc": "a"},
                {"quote": "blue", "doc": "b"},
                {"quote": "red", "doc": "d"},
            ],
            "docs": {"c": 2},
        },
        {"id": "2", "question": "How?", "docs": {"x": 1, "y": 1}},
    ]
    assert problems(path) == {}


def test_rows_without_ids_are_joined_by_the_question_and_get_an_id_of_its_text(file):
    path = file("q.csv", "question,quote\nWhy?,red\n Why? ,blue\nHow?,red\n")
    first, second = records(path)
    assert [e["quote"] for e in first["evidence"]] == ["red", "blue"]
    assert first["id"] == "q-5d8a995a6fa7" != second["id"]
    (line,) = records(file("q.jsonl", '{"question": "Why?"}'))
    assert line["id"] == first["id"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1,What?,,x,", "question: expected the same as in q.csv:2, which has the same id '1': 'Why?', got 'What?'"),
        ("1,Why?,no,x,", "answer: expected the same as in q.csv:2, which has the same id '1': 'yes', got 'no'"),
        ("1,Why?,,,a=3", "docs: expected the grade of 'a' in q.csv:2, 2, got 3"),
        ("1,Why?,yes,red,a=2", "duplicate row: expected more than q.csv:2 has"),
    ],
)
def test_a_row_that_contradicts_its_question_or_adds_nothing_is_told(file, row, said):
    path = file("q.csv", f"id,question,answer,quote,docs\n1,Why?,yes,red,a=2\n{row}\n")
    (found,) = problems(path).values()
    assert said in found
    assert records(path) == [
        {"id": "1", "question": "Why?", "answer": "yes", "evidence": [{"quote": "red"}], "docs": {"a": 2}}
    ]


def test_names_of_columns_in_any_case_and_synonyms_are_found_and_shown(file):
    path = file("q.csv", "Query ID,Question,Reference,Quote,Document,Notes\n1,Why?,red,it is red,a.md,hm\n")
    used = used_columns(path)
    assert used.used == {
        "id": "Query ID",
        "question": "Question",
        "answer": "Reference",
        "quote": "Quote",
        "doc": "Document",
    }
    assert used.unused == ("Notes",)
    assert "doc = 'Document'; not used: Notes" in str(used)
    assert records(path)[0] | {"evidence": 0} == {"id": "1", "question": "Why?", "answer": "red", "evidence": 0}


def test_a_synonym_that_two_columns_have_is_not_guessed(file):
    path = file("q.csv", "question,Source,File\nWhy?,a,b\n")
    assert used_columns(path).unused == ("Source", "File")
    assert used_columns(path, {"doc": "File"}).used == {"question": "question", "doc": "File"}
    with pytest.raises(MogError, match="expected a column `question`, found Query, Question text"):
        used_columns(file("r.csv", "Query,Question text\nWhy?,Why?\n"))


@pytest.mark.parametrize("name", ["q.csv", "q.jsonl", pytest.param("q.parquet", marks=pytest.mark.whole)])
def test_given_columns_are_used_and_missing_ones_are_named(name, file, parquet):
    if name == "q.jsonl":
        path = file(name, '{"Frage": "Warum?", "question": "no", "Antwort": "Rot"}')
    elif name == "q.csv":
        path = file(name, "Frage,question,Antwort\nWarum?,no,Rot\n")
    else:
        path = parquet(Frage=["Warum?"], question=["no"], Antwort=["Rot"])
    (found,) = records(path, {"question": "Frage", "answer": "Antwort"})
    assert (found["question"], found["answer"]) == ("Warum?", "Rot")
    with pytest.raises(MogError, match=rf"{name}: columns\.answer: expected .* of the file.*, got 'Antwurt'"):
        records(path, {"question": "Frage", "answer": "Antwurt"})
    with pytest.raises(MogError, match=r"columns: expected fields of a question \(id, question.*got 'frage'"):
        read_records(path, {"frage": "Frage"})


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("Why?,a,3,,", "end: expected doc, start and end together, this one is missing"),
        ("Why?,,3,4,", "doc: expected doc, start and end together"),
        ("Why?,a,3,4x,", "end: expected an integer, got str '4x'"),
        (f"Why?,a,3,{'9' * 5000},", "end: expected an integer, got str '9999"),
        ("Why?,a,3,٣,", "end: expected an integer, got str '٣'"),
        (" ,a,,,", "question: expected a text, the cell is empty"),
        ("Why?,a,,,it is red", "evidence: expected JSON, got 'it is red'"),
        ("Why?,a,,,{}", "evidence: expected a list, got dict"),
        (f"Why?,a,,,{'[' * 100_000}", "evidence: expected JSON"),
        ("W\0y?,a,,,", "question: NUL character at 1"),
        ("Why?,a,,,,,x", "expected at most 5 columns as in the header, got 7"),
        (f"{'W' * (MOST + 1)},a,,,", f"expected at most {MOST} characters per row, got more: not read"),
    ],
    ids=range(12),
)
def test_a_row_that_cannot_be_read_is_told_by_line_and_the_next_is_read(file, cells, said):
    path = file("q.csv", f"question,doc,start,end,evidence\n{cells}\nGood?,a,1,2,\n")
    (place, found), *more = problems(path).items()
    assert place == "q.csv:2" and said in found and not more and len(found) < 500
    assert [r["question"] for r in records(path)] == ["Good?"]


def test_byte_order_marks_and_legacy_encodings_are_read_as_in_a_corpus(file):
    text = "question,answer\nWhere is the café?,à côté\n"
    for encoding in ("utf-8-sig", "utf-16"):
        assert records(file("q.csv", text.encode(encoding)))[0]["answer"] == "à côté", encoding
    assert records(file("q.jsonl", b'\xef\xbb\xbf{"question": "Why?"}'))[0]["question"] == "Why?"
    with pytest.raises(MogError, match="expected UTF-8, got UTF-16: save it as UTF-8"):
        records(file("q.jsonl", '{"question": "Why?"}'.encode("utf-16")))


def test_bytes_that_are_not_utf8_end_a_table_and_are_told(file):
    # The encoding is told by the first million bytes.
    rows = b"".join(b"Question %d about things?,yes\n" % n for n in range(40_000))
    *found, (place, wrong) = read_records(file("q.csv", b"question,answer\n" + rows + b"Wh\xff?,no\nLast?,no\n"))
    assert all(isinstance(record, dict) for _, record in found)
    assert "expected UTF-8, got other bytes" in wrong and place == f"q.csv:{len(found) + 2}"
    assert len(found) > 39_000
    with pytest.raises(MogError, match="expected a table of questions, got: expected UTF-8, got byte 0xff"):
        records(file("r.csv", b"question\nWh\xff?\n"))


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_line_of_many_bytes_is_told_and_never_held(file, packed):
    line = b'{"question": "' + b"W" * 100_000_000 + b'"}\n'
    path = file(f"q.jsonl{packed}", line + b'{"question": "Good?"}\n{"question": "W\\ud800"}\n[1]\n{')
    del line
    tracemalloc.start()
    found = dict(read_records(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["q.jsonl" + packed + ":1"].startswith(f"expected at most {MOST} bytes per line, got 100000016")
    assert [f["question"] for f in found.values() if isinstance(f, dict)] == ["Good?"]
    assert [f[:16] for f in list(found.values())[2:]] == ["lone surrogate, ", "expected a JSON ", "malformed JSON: "]
    assert peak < 4 * MOST


def test_lines_of_json_and_rows_of_tables_have_the_same_shorthands(file):
    line = {"id": 1, "question": " Why? ", "aliases": "a | b", "docs": "x=2|y", "quote": ["q"], "doc": "z", "more": [1]}
    assert records(file("q.jsonl", json.dumps(line))) == [
        {
            "id": "1",
            "question": "Why?",
            "aliases": ["a", "b"],
            "evidence": [{"quote": "q", "doc": "z"}],
            "docs": {"x": 2, "y": 1},
        }
    ]


@pytest.mark.whole
def test_rows_of_parquet_that_cannot_be_read_are_told_and_the_others_read(parquet):
    path = parquet(question=["Why?", "Long?", "How?"], answer=["x", "y" * (MOST + 1), "z"])
    ((place, said),) = problems(path).items()
    assert place == "q.parquet:2" and said.startswith(f"expected at most {MOST} bytes per row, got 100000")
    assert [r["question"] for r in records(path)] == ["Why?", "How?"]
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 4, 5], pa.int32()).buffers()[1], pa.py_buffer(b"Why?\xff")]
    )
    path = parquet(question=broken)
    assert problems(path) == {"q.parquet:2": "expected UTF-8, got byte 0xff"}
    path = parquet(question=[b"Why?"], n=[1])
    assert problems(path) == {"q.parquet:1": "question: expected a text, got bytes \"b'Why?'\""}
    assert len(records(parquet(question=[3, 4]))) == 2


@pytest.mark.whole
def test_row_groups_that_do_not_fit_are_refused(parquet, monkeypatch):
    monkeypatch.setattr("mog_assets.plugins.formats.question_tables._MOST_GROUP", 1000)
    path = parquet(question=[f"Why {n}?" for n in range(1000)])
    with pytest.raises(MogError, match="expected row groups of at most 1000 bytes in the columns of questions, got"):
        records(path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("q.xlsx", "PK", "expected a file that ends in .jsonl, .jsonl.gz, .csv, .tsv, .csv.gz, .tsv.gz"),
        pytest.param("train-v2.0.json", "{}", "`mog import squad ", marks=pytest.mark.whole),
        ("q.csv", "one,two\n1,2\n", "expected a column `question`, found one, two: rename one, or name it, with `mog"),
        ("q.csv", b"\x7fELF\0\0\xff\xfe", "expected a table of questions, got: binary content"),
        pytest.param("q.parquet", "PAR1 no", "expected a readable Parquet file, got: ", marks=pytest.mark.whole),
        pytest.param("q.parquet", "", "expected a readable Parquet file, got: ", marks=pytest.mark.whole),
    ],
)
def test_a_file_that_has_no_questions_is_refused_with_a_remedy(file, name, content, said):
    path = file(name, content)
    for read in (records, used_columns):
        with pytest.raises(MogError) as raised:
            read(path)
        assert str(path) in str(raised.value) and said in str(raised.value)


@pytest.mark.whole
def test_a_folder_of_beir_and_other_folders_are_refused(tmp_path):
    with pytest.raises(MogError, match="expected a file of questions .*got a folder"):
        read_records(tmp_path)
    (tmp_path / "qrels").mkdir()
    with pytest.raises(MogError, match=f"got a BEIR folder: `mog import beir {tmp_path}` reads it"):
        read_records(tmp_path)


def test_damaged_and_missing_files_and_pipes_are_refused(tmp_path, file):
    os.mkfifo(tmp_path / "pipe.csv")
    cut = file("cut.csv.gz", "question\n" + "".join(f"Why {n}?\n" for n in range(1000)))
    cut.write_bytes(cut.read_bytes()[:-100])
    (tmp_path / "no.csv.gz").write_bytes(b"question\nWhy?\n")
    for name in ("cut.csv.gz", "no.csv.gz", "pipe.csv", "none.csv"):
        with pytest.raises(MogError, match=f"{name}: expected a readable table, got: "):
            records(tmp_path / name)


def test_a_table_without_rows_has_no_records(file):
    assert list(read_records(file("q.csv", "question,answer\n"))) == []
    assert list(read_records(file("q.csv", ""))) == []
    with pytest.raises(MogError, match="expected a header and rows below it that can be read, found none"):
        used_columns(file("q.csv", "question,answer\n"))
