"""`mog import`: public data sets in their own formats become corpora and question sets, whole or not at all."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import pytest
from shared import ROOT, called

from mog_assets import config
from mog_assets.documents.reading import read_corpus
from mog_assets.plugins.datasets.foreign import LONGEST, Notes, write_documents
from mog_assets.registry import IMPORTERS

CORPUS = [
    {"_id": "MED-1", "title": "Statins", "text": "Statins lower cholesterol.", "metadata": {"url": "http://x/1"}},
    {"_id": "MED-2", "title": "", "text": "Fibre helps, too: café.", "metadata": {}},
    {"_id": "3", "title": "Salt", "text": "Salt raises blood pressure.", "metadata": {}},
]
QUERIES = [{"_id": f"PLAIN-{n}", "text": f"Question {n}?", "metadata": {}} for n in range(1, 6)]
QRELS = {
    "train": ["PLAIN-1\tMED-1\t2", "PLAIN-1\tMED-2\t1"],
    "dev": ["PLAIN-2\t3\t1"],
    "test": ["PLAIN-3\tMED-2\t1", "PLAIN-3\tMED-1\t0", "PLAIN-4\tMED-1\t1"],
}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(raw) if path.name.endswith(".gz") else raw)
    return path


def beir_folder(path, corpus=CORPUS, queries=QUERIES, qrels=QRELS, packed=""):
    write(path / f"corpus.jsonl{packed}", corpus if isinstance(corpus, str) else lines(corpus))
    write(path / f"queries.jsonl{packed}", queries if isinstance(queries, str) else lines(queries))
    for split, rows in qrels.items():
        write(path / "qrels" / f"{split}.tsv", "\n".join(["query-id\tcorpus-id\tscore", *rows, ""]))
    return path


def run(*arguments):
    return called("import", *arguments)


def imported(folder, name):
    """The documents and questions that were written, and what mog.yaml says of them."""
    settings = config.load(folder / "mog.yaml")
    found = SimpleNamespace(corpus=settings.corpora.get(name), set=settings.question_sets[name])
    found.documents = read(found.corpus.path) if found.corpus else None
    found.questions = read(found.set.path)
    return found


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


# BEIR


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_beir_folder_becomes_a_corpus_and_a_question_set_of_a_new_project(project, tmp_path, packed):
    result = run("beir", beir_folder(tmp_path / "nfcorpus", packed=packed))
    assert result.exit_code == 0, result.stderr
    found = imported(project, "nfcorpus")
    assert found.corpus.path == project / "corpora" / "nfcorpus.jsonl.gz"
    assert found.set.path == project / "nfcorpus.questions.jsonl.gz"
    assert (found.set.corpora, found.set.train, found.set.test) == (["nfcorpus"], ["train", "dev"], ["test"])
    assert found.documents == [
        {"id": "MED-1", "title": "Statins", "text": CORPUS[0]["text"], "metadata": {"url": "http://x/1"}},
        {"id": "MED-2", "title": "", "text": CORPUS[1]["text"]},
        {"id": "3", "title": "Salt", "text": CORPUS[2]["text"]},
    ]
    assert [d.id for d in read_corpus(found.corpus.path).documents] == ["MED-1", "MED-2", "3"]
    assert found.questions == [
        {"id": "PLAIN-1", "question": "Question 1?", "split": "train", "docs": {"MED-1": 2, "MED-2": 1}},
        {"id": "PLAIN-2", "question": "Question 2?", "split": "dev", "docs": {"3": 1}},
        {"id": "PLAIN-3", "question": "Question 3?", "split": "test", "docs": {"MED-2": 1, "MED-1": 0}},
        {"id": "PLAIN-4", "question": "Question 4?", "split": "test", "docs": {"MED-1": 1}},
    ]
    assert "documents nfcorpus: corpora/nfcorpus.jsonl.gz (3)" in result.stdout
    assert "questions nfcorpus: nfcorpus.questions.jsonl.gz (1 train, 1 dev, 2 test)" in result.stdout
    assert "6 judgements of documents (1 of grade 0, 4 of grade 1, 1 of grade 2)" in result.stdout
    assert "Wrote mog.yaml. Next: `mog run`." in result.stdout
    assert result.stderr.strip() == "mog: queries without judgements, left out: 1; the first: " + (
        f"queries.jsonl{packed}:5: 'PLAIN-5'"
    )


@pytest.mark.parametrize(
    ("splits", "train", "test"),
    [
        (["test"], [], ["test"]),
        (["train", "dev"], ["train"], ["dev"]),
    ],
)
def test_splits_that_exist_are_named(project, tmp_path, splits, train, test):
    folder = beir_folder(tmp_path / "set", qrels={split: QRELS[split] for split in splits})
    assert run("beir", folder).exit_code == 0
    found = imported(project, "set").set
    assert (found.train, found.test) == (train, test)


def test_what_is_left_out_of_a_beir_folder_is_counted_and_told(project, tmp_path):
    corpus = lines(
        [
            *CORPUS,
            {"_id": "MED-1", "title": "", "text": "Again."},
            {"_id": "e\u0301", "title": "", "text": "An accent."},
            {"_id": "\u00e9", "title": "", "text": "The same accent."},
            {"_id": "empty", "title": " ", "text": ""},
            {"_id": "title", "title": "A title", "text": ""},
            {"_id": 12, "title": None, "text": "A number and no title."},
            {"_id": "x" * 1001, "title": "", "text": "Long id."},
            {"_id": "nul", "title": "", "text": "a\0b"},
            {"_id": "half", "title": "", "text": "\ud800"},
            {"title": "", "text": "No id."},
            {"_id": "long", "title": "", "text": "é" * (LONGEST // 2)},
            ["no object"],
        ]
    )
    corpus += "{\n" + '{"_id": "nan", "text": NaN}\n' + '{"_id": "' + "W" * (LONGEST + 10) + '"}\n'
    queries = [*QUERIES, QUERIES[2], {"_id": "blank", "text": " "}, {"_id": "list", "text": []}]
    test = [
        *QRELS["test"],
        "PLAIN-3\tMED-2\t2",
        "PLAIN-4\tgone\t1",
        "PLAIN-5\tempty\t1",
        "PLAIN-1\tMED-1\t-2",
        "nobody\tMED-1\t1",
        "blank\tMED-1\t1",
        "PLAIN-4\tMED-1\t0.5",
        "PLAIN-4\tMED-1",
    ]
    result = run("beir", beir_folder(tmp_path / "set", corpus, queries, {"test": test, "train": QRELS["train"]}))
    assert result.exit_code == 0, result.stderr
    found = imported(project, "set")
    assert [d["id"] for d in found.documents] == ["MED-1", "MED-2", "3", "e\u0301", "title", "12"]
    assert found.documents[4] == {"id": "title", "title": "A title", "text": "A title"}
    reading = read_corpus(found.corpus.path)
    assert len(reading.documents) == 6 and not reading.skipped
    assert [(q["id"], q["docs"]) for q in found.questions] == [
        ("PLAIN-3", {"MED-2": 1, "MED-1": 0}),
        ("PLAIN-4", {"MED-1": 1}),
    ]
    told = {line.removeprefix("mog: ").split(":")[0]: line for line in result.stderr.strip().splitlines()}
    counts = {what: int(line.split(": ")[2].split(";")[0]) for what, line in told.items()}
    assert counts == {
        "judgements skipped that contradict an earlier one": 1,
        "judgements with a negative grade, imported as 0": 1,
        "judgements skipped": 2,
        "judgements of train skipped, whose question is in test": 2,
        "documents skipped that repeat an id": 2,
        "documents with a title alone, which is also their text": 1,
        "documents skipped": 10,
        "judgements skipped of unknown documents": 2,
        "queries without a relevant document, left out": 2,
        "queries without judgements, left out": 2,
        "queries skipped that are empty": 1,
        "queries skipped": 1,
        "judged questions without a query, or with one that repeats an id": 1,
    }
    assert "the first: corpus.jsonl:7: empty document" in told["documents skipped"]
    assert "the first: 'PLAIN-4': 'gone'" in told["judgements skipped of unknown documents"]
    assert all(len(line) < 500 and line.isprintable() for line in result.stderr.splitlines())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "queries.jsonl").unlink(), "with queries.jsonl or queries.jsonl.gz, found neither"),
        (lambda f: shutil.rmtree(f / "qrels"), "expected judgements, qrels/test.tsv or others, found none"),
        (lambda f: write(f / "corpus.jsonl", ""), "expected at least one document that can be used, found none"),
        (lambda f: (f / "corpus.jsonl").rename(f / "corpus.jsonl.gz"), "corpus.jsonl.gz: expected a readable JSON"),
        (
            lambda f: f.rename(f.parent / "all") and beir_folder(f / "android") and None,
            "one of the folders in it: andr",
        ),
    ],
)
def test_a_folder_that_cannot_be_imported_is_one_line_and_leaves_nothing(project, tmp_path, change, said):
    folder = beir_folder(tmp_path / "set")
    change(folder)
    result = run("beir", folder)
    (line,) = result.stderr.strip().splitlines()
    assert result.exit_code == 1 and said in line
    assert [p for p in project.rglob("*") if p.is_file()] == []


@pytest.mark.full
def test_ten_thousand_documents_are_never_in_memory_together(tmp_path):
    text = "Salt raises blood pressure. " * 200
    corpus = "".join(
        json.dumps({"_id": f"doc-{n}", "title": f"Salt {n}", "text": f"{n} {text}"}) + "\n" for n in range(10_000)
    )
    folder = beir_folder(tmp_path / "set", corpus, packed=".gz")
    del corpus
    known, notes = set(), Notes()
    with (tmp_path / "out").open("wb") as stream:
        tracemalloc.start()
        count = write_documents(IMPORTERS["beir"].open(notes, folder).documents(lambda n: None), stream, known, notes)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 10_000 and list(notes) == []
    assert (tmp_path / "out").stat().st_size > 50_000_000 > 10 * peak
    assert "doc-9999" in known and "doc-10000" not in known


# TREC

TOPICS = {
    "topics.sgml": (
        "<top>\n<num> Number: 301\n<title> International Organized Crime\n\n<desc> Description:\nIdentify "
        "organizations &amp; groups.\n\n<narr> Narrative:\nA relevant\n</top>\n\n"
        "<top><num>Number: 051</num><title>Topic: Airbus\nSubsidies</title></top>\n"
    ),
    "topics.xml": (
        '<?xml version="1.0" encoding="UTF-8"?>\n<topics task="x"><topic number="301"><query>International Organized '
        "Crime</query><question>Identify organizations &amp; groups.</question></topic>"
        '<topic number="51"><query>Airbus Subsidies</query></topic></topics>'
    ),
    "topics.tsv": "301\tInternational Organized Crime\n51\tAirbus Subsidies\n",
    "topics.jsonl": lines(
        [{"qid": 301, "query": "International Organized Crime"}, {"qid": "51", "query": "Airbus Subsidies"}]
    ),
}
TREC_QRELS = "301 0 FT911-1 1\n301 0 FT911-2 0\n51 0 FT911-2 2\n51 0 GONE -1\n\n51 0 FT911-2\n51 0 FT911-1 x\n"
SGML = """
<DOC>
<DOCNO> FT911-1 </DOCNO>
<HEADLINE> FT  14 MAY 91 / Crime
</HEADLINE>
<TEXT>
Gangs &amp; profits: 3 < 4.
<P>
More <F P=105>gangs</F>.
</P>
</TEXT>
<PUB>The Financial Times</PUB>
<TEXT>The end.</TEXT>
</DOC>
<doc><docno>FT911-2</docno>Airbus <b>without</b> a text element.</doc>
<DOC><TEXT>No id.</TEXT></DOC>
<DOC><DOCNO>FT911-3</DOCNO><TEXT>Cut off
"""


def trec_files(folder, topics="topics.sgml", documents=SGML, name="ft911", packed=""):
    return (
        write(folder / topics, TOPICS[topics]),
        write(folder / "qrels.txt", TREC_QRELS),
        write(folder / "docs" / f"{name}{packed}", documents),
    )


def trec(topics, qrels, documents, *more):
    return run("trec", "--topics", topics, "--qrels", qrels, "--documents", documents, *more)


@pytest.mark.parametrize("topics", TOPICS)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_trec_collection_becomes_a_corpus_and_a_question_set(project, tmp_path, topics, packed):
    result = trec(*trec_files(tmp_path, topics, packed=packed), "--name", "trec")
    assert result.exit_code == 0, result.stderr
    found = imported(project, "trec")
    assert found.documents == [
        {
            "id": "FT911-1",
            "title": "FT 14 MAY 91 / Crime",
            "text": "Gangs & profits: 3 < 4.\n\nMore gangs.\n\nThe end.",
        },
        {"id": "FT911-2", "title": "", "text": "Airbus without a text element."},
    ]
    assert found.questions == [
        {
            "id": "301",
            "question": "International Organized Crime",
            "split": "test",
            "docs": {"FT911-1": 1, "FT911-2": 0},
        },
        {"id": "51", "question": "Airbus Subsidies", "split": "test", "docs": {"FT911-2": 2}},
    ]
    assert (found.set.train, found.set.test) == ([], ["test"])
    for said in (
        "documents skipped: 2; the first: ft911" + packed + ": document 3: expected a <DOCNO>, found none",
        "judgements skipped: 2; the first: qrels.txt:6: expected 4 columns of UTF-8, the last an integer, got '51, 0, ",
        "judgements with a negative grade, imported as 0: 1",
        "judgements skipped of unknown documents: 1; the first: '51': 'GONE'",
    ):
        assert said in result.stderr


@pytest.mark.parametrize("topics", ["topics.sgml", "topics.xml"])
def test_the_description_of_a_topic_can_be_the_question(project, tmp_path, topics):
    result = trec(*trec_files(tmp_path, topics), "--name", "t", "--part", "description")
    assert result.exit_code == 0, result.stderr
    assert [q["question"] for q in imported(project, "t").questions] == ["Identify organizations & groups."]
    assert "queries skipped that are empty: 1" in result.stderr


def test_documents_of_a_folder_may_be_of_several_formats_and_strange_files_are_told(project, tmp_path):
    topics, qrels, _ = trec_files(tmp_path)
    folder = tmp_path / "docs"
    write(folder / "b" / "more.tsv.gz", "FT911-2\tAirbus\tand Boeing.\nno tab\n")
    write(folder / "c.jsonl", lines([{"docid": 7, "headline": "Seven", "contents": "Seven documents."}]))
    write(folder / "ft911", SGML.split("<doc>")[0])
    write(folder / "README", "Nothing.")
    (folder / "broken.jsonl.gz").write_bytes(b"no gzip")
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to(folder / "nowhere")
    write(folder / ".hidden", SGML)
    result = trec(topics, qrels, folder)
    assert result.exit_code == 0, result.stderr
    documents = {d["id"]: d["text"] for d in imported(project, "docs").documents}
    assert list(documents) == ["7", "FT911-1", "FT911-2"] and documents["FT911-2"] == "Airbus\tand Boeing."
    assert "documents skipped: 3; the first: README: expected documents, <DOC> … </DOC>" in result.stderr


def test_other_encodings_are_named_and_not_guessed(project, tmp_path):
    documents = "<DOC><DOCNO>FT911-1</DOCNO><TEXT>Café</TEXT></DOC>".encode("latin-1")
    files = trec_files(tmp_path, documents=documents)
    result = trec(*files, "--name", "a")
    assert result.exit_code == 1 and "name the encoding with --encoding" in result.stderr
    assert trec(*files, "--name", "a", "--encoding", "latin-1").exit_code == 0
    assert imported(project, "a").documents[0]["text"] == "Café"
    result = trec(*files, "--name", "b", "--encoding", "hex")
    assert result.exit_code == 2 and "--encoding: expected an encoding such as utf-8" in result.stderr


def test_hostile_topics_and_documents_are_refused_or_skipped(project, tmp_path):
    topics, qrels, documents = trec_files(tmp_path, "topics.xml")
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(20))
    bomb = f'<!DOCTYPE t [<!ENTITY e0 "x">{entities}<!ENTITY f SYSTEM "/etc/passwd">]>'
    write(topics, f'{bomb}<topics><topic number="301"><query>a &e20; &f;</query></topic></topics>')
    result = trec(topics, qrels, documents, "--name", "a")
    assert "root:" not in result.stdout + result.stderr
    if result.exit_code == 0:
        assert [q["question"] for q in imported(project, "a").questions] == ["a"]
    write(topics, "<topics><topic>")
    result = trec(topics, qrels, documents, "--name", "b")
    assert result.exit_code == 1 and "expected topics as SGML, XML, or lines" in result.stderr
    long = f"<DOC><DOCNO>long</DOCNO><TEXT>{'W' * (LONGEST + 1)}</TEXT></DOC>" + "<DOC>" * 1000 + SGML
    files = trec_files(tmp_path, documents=long)
    result = trec(*files, "--name", "c")
    assert result.exit_code == 0 and "document 1: expected at most 20000000 bytes per document" in result.stderr
    assert [d["id"] for d in imported(project, "c").documents] == ["FT911-1", "FT911-2"]


# SQuAD

FIRST, SECOND = "Super Bowl 50 was in Santa Clara.", "Denver won. Denver is e\u0301lite."
QAS = [
    {"id": "q1", "question": "Where was it?", "answers": [{"text": "Santa Clara", "answer_start": 21}]},
    {"id": "q2", "question": "Who lost?", "is_impossible": True, "answers": [], "plausible_answers": [{}]},
]
MORE = [
    {
        "id": "q3",
        "question": "Who won?",
        "answers": [
            {"text": "Denver won", "answer_start": 0},
            {"text": "Denver", "answer_start": 12},
            {"text": "Denver", "answer_start": 12},
        ],
    },
    {"id": "q4", "question": "Where not?", "answers": [{"text": "Carolina", "answer_start": 3}]},
    {"id": "q1", "question": "Again?", "answers": []},
    {"id": "", "question": " "},
    "no question",
]
ARTICLE = {"title": "Super_Bowl", "paragraphs": [{"context": FIRST, "qas": QAS}, {"context": SECOND, "qas": MORE}]}


def test_articles_of_squad_become_documents_and_answers_offsets(project, tmp_path):
    dev = write(tmp_path / "dev-v2.0.json", json.dumps({"version": "v2.0", "data": [ARTICLE, {"title": "x"}]}))
    qa = {"id": "t1", "question": "What?", "answers": [{"text": "Salt", "answer_start": 0}]}
    train = [{"title": "Super_Bowl", "paragraphs": [{"context": "Salt.", "qas": [qa]}, {"context": " "}]}]
    train = write(tmp_path / "train-v2.0.json.gz", json.dumps({"data": train}))
    result = run("squad", dev, train)
    assert result.exit_code == 0, result.stderr
    found = imported(project, "dev-v2.0")
    text = f"{FIRST}\n\n{SECOND}"
    assert found.documents == [
        {"id": "Super_Bowl", "title": "Super Bowl", "text": text},
        {"id": "Super_Bowl 2", "title": "Super Bowl 2", "text": "Salt."},
    ]
    questions = {q["id"]: q for q in found.questions}
    assert list(questions) == ["q1", "q2", "q3", "q4", "t1"]
    place = {"corpus": "dev-v2.0", "doc": "Super_Bowl"}
    assert questions["q1"] == {
        "id": "q1",
        "question": "Where was it?",
        "answer": "Santa Clara",
        "evidence": [{"start": 21, "end": 32, **place}],
        "split": "dev",
    }
    assert questions["q2"] == {"id": "q2", "question": "Who lost?", "kind": "impossible", "split": "dev"}
    (span,) = questions["q3"]["evidence"]
    assert (text[span["start"] : span["end"]], span["start"]) == ("Denver", len(FIRST) + 2 + 12)
    assert (questions["q3"]["answer"], questions["q3"]["aliases"]) == ("Denver", ["Denver won"])
    assert (questions["q4"]["answer"], "evidence" in questions["q4"]) == ("Carolina", False)
    assert (found.set.train, found.set.test) == (["train"], ["dev"])
    assert "evidence: 3 places in documents; 2 questions without" in result.stdout
    for said in (
        "articles skipped: 1; the first: dev-v2.0.json: article 2",
        "paragraphs skipped, with their questions: 1",
        "impossible questions, imported without evidence and with the kind `impossible`: 1; the first: 'q2'",
        "questions with answers that are not where the file says: 1; the first: 'q4'",
        "questions skipped that repeat an id: 1; the first: 'q1'",
        "questions skipped: 2",
    ):
        assert said in result.stderr


@pytest.mark.parametrize("content", ["[]", '{"data": {}}', "{", '{"data": NaN}'])
def test_other_json_is_not_taken_for_squad(project, tmp_path, content):
    result = run("squad", write(tmp_path / "x.json", content))
    assert result.exit_code == 1 and "expected SQuAD's format, an object with a list `data`, got: " in result.stderr
    assert list(project.iterdir()) == []


# mog.yaml


def test_a_configuration_that_exists_stays_and_its_user_is_told_what_to_add(project, tmp_path):
    write(project / "mog.yaml", before := "# Mine.\nhome: .mog   # here\ncorpora:\n  docs: {path: docs}\n")
    result = run("beir", beir_folder(tmp_path / "set"))
    assert result.exit_code == 0 and (project / "mog.yaml").read_text() == before
    _, _, added = result.stdout.partition("Add to mog.yaml, then `mog run`:\n")
    write(project / "mog.yaml", before + added.removeprefix("corpora:\n"))
    assert list(config.load().corpora) == ["docs", "set"]
    assert len(imported(project, "set").questions) == 4
    again = run("beir", tmp_path / "set", "--replace")
    assert again.exit_code == 0 and "mog.yaml" not in again.stdout


def test_an_existing_name_is_an_error_and_replace_replaces_what_an_import_wrote(project, tmp_path):
    folder = beir_folder(tmp_path / "set")
    assert run("beir", folder).exit_code == 0
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    result = run("beir", folder)
    assert result.exit_code == 2
    assert "question_sets.set: expected none yet, found one: choose another --name, or replace it" in result.stderr
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    assert run("beir", folder, "--replace").exit_code == 0
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before

    shutil.rmtree(folder / "qrels")
    beir_folder(folder, CORPUS[:1], qrels={"dev": ["PLAIN-4\tMED-1\t1"]})
    result = run("beir", folder, "--replace")
    assert result.exit_code == 0
    found = imported(project, "set")
    assert (len(found.documents), len(found.questions)) == (1, 1)
    assert (project / "mog.yaml").read_bytes() == before[project / "mog.yaml"]


def test_files_and_entries_of_others_are_not_replaced(project, tmp_path):
    folder = beir_folder(tmp_path / "set")
    write(project / "corpora" / "set.jsonl.gz", "mine")
    result = run("beir", folder)
    assert result.exit_code == 2 and "set.jsonl.gz: expected none yet, found one" in result.stderr
    write(project / "mog.yaml", "corpora: {set: {path: mine}}\n")
    result = run("beir", folder, "--replace")
    assert (
        result.exit_code == 2
        and f"corpora.set: expected none yet, found one at {project / 'mine'}: choose another" in result.stderr
    )
    write(project / "mog.yaml", "corpora: {mine: {path: .}}\n")
    result = run("beir", folder, "--name", "x")
    assert result.exit_code == 2 and "would be read as a document of the corpus 'mine'" in result.stderr
    result = run("beir", folder, "--name", "../x")
    assert result.exit_code == 2 and "--name: expected a name of 1 to 64 letters" in result.stderr
    write(project / "mog.yaml", "corpora: [\n")
    assert run("beir", folder, "--name", "x").exit_code == 2
    names = sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file())
    assert names == ["corpora/set.jsonl.gz", "mog.yaml"]


# Ends in the middle

_CHILD = """
import os, signal, sys, time
from mog_assets import cli
from mog_assets.resources.files import interrupt_with
left = int(sys.argv[1])
def interrupt(point):
    global left
    if point == sys.argv[2]:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), int(sys.argv[3]))
            time.sleep(60)
interrupt_with(interrupt)
cli.main(sys.argv[4:])
"""


def stopped(project, folder, occurrence, point, number):
    command = [sys.executable, "-c", _CHILD, str(occurrence), point, str(int(number)), "import", "beir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("occurrence", "point", "there"),
    [
        (1, "file written", []),
        (3, "file written", ["corpora/set.jsonl.gz", "set.questions.jsonl.gz"]),
    ],
)
def test_killed_in_the_middle_leaves_no_half_file_and_the_next_import_is_whole(
    project, tmp_path, occurrence, point, there
):
    folder = beir_folder(tmp_path / "set")
    done = stopped(project, folder, occurrence, point, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file())
    assert [name for name in left if ".tmp-" not in name] == there
    assert [len(read(project / name)) for name in there] == [3, 4][: len(there)]
    result = run("beir", folder, *(["--replace"] if there else []))
    assert result.exit_code == 0, result.stderr
    assert len(imported(project, "set").questions) == 4
    names = sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file())
    assert names == ["corpora/set.jsonl.gz", "mog.yaml", "set.questions.jsonl.gz"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_by_a_signal_leaves_nothing(project, tmp_path, number, code):
    done = stopped(project, beir_folder(tmp_path / "set"), 1, "file written", number)
    assert done.returncode == code
    assert "nothing was finished yet; `mog import` starts again" in done.stderr
    assert [path for path in project.rglob("*") if path.is_file()] == []
