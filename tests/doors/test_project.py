"""`mog init`: a configuration for what is there, that loads and runs."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from shared import ROOT, called

from mog_assets import config
from mog_assets.cli.found_questions import find_questions, look_at
from mog_assets.cli.init import find_documents, written
from mog_assets.documents.folders import suffixes
from mog_assets.documents.memory import source_state
from mog_assets.documents.reading import read_corpus


def init(*arguments):
    return called("init", *arguments)


def question(identity, split, corpus=None, **more):
    evidence = [{"corpus": corpus, "doc": "a.txt", "start": 0, "end": 3}] if corpus else []
    return json.dumps({"id": identity, "question": "Why?", "split": split, "evidence": evidence, **more})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with a folder of two documents, and one that cannot be read."""
    monkeypatch.chdir(tmp_path)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Yeast makes dough rise.", encoding="utf-8")
    (docs / "b.md").write_text("# Salt\n\nSalt slows it down.", encoding="utf-8")
    (docs / "c.xyz").write_bytes(b"PK")
    return tmp_path


def test_a_folder_of_documents_becomes_a_corpus_and_what_is_not_read_is_said(folder):
    result = init("docs/")
    assert result.exit_code == 0, result.stderr
    assert "documents docs: docs (1 .txt, 1 .md; not read: c.xyz (unknown kind .xyz" in result.stdout
    settings = config.load(folder / "mog.yaml")
    assert {name: corpus.path for name, corpus in settings.corpora.items()} == {"docs": folder / "docs"}
    assert settings.question_sets == {} and settings.home == folder / ".mog"


def test_the_settings_in_comments_are_the_defaults(folder):
    assert init("docs").exit_code == 0
    text = (folder / "mog.yaml").read_text(encoding="utf-8")
    head, more = text.split("# Further settings")
    keys = [line[2:] for line in more.splitlines() if line.startswith("# ") and ":" in line and " with " not in line]
    # Prose has spaces before its colons.
    shown = yaml.safe_load("\n".join(line for line in keys if " " not in line.split(":")[0].strip()))
    assert set(shown) == {"retriever", "budget", "finest_chars", "levels", "encoder", "answering", "llm"}
    defaults = config.load(folder / "mog.yaml").model_dump(mode="json")
    for key, value in shown.items():
        for name, given in value.items() if isinstance(value, dict) else [(None, value)]:
            assert given == (defaults[key][name] if name else defaults[key]), (key, name)
    example = "\n".join(
        line[2:] for line in head.splitlines() if line.startswith(("# question_sets:", "#   ")) and "{" not in line
    )
    (folder / "mog.yaml").write_text(text + example, encoding="utf-8")
    support = config.load(folder / "mog.yaml").question_sets["support"]
    assert (support.train, support.test) == (["train"], ["test"])


def test_a_configuration_is_not_overwritten_without_force(folder):
    (folder / "mog.yaml").write_text("mine", encoding="utf-8")
    result = init("docs")
    assert result.exit_code == 2
    assert f"{folder / 'mog.yaml'}: expected no configuration yet, found one" in result.stderr
    assert (folder / "mog.yaml").read_text(encoding="utf-8") == "mine"
    assert init("docs", "--force").exit_code == 0
    assert config.load(folder / "mog.yaml").corpora


def test_question_files_beside_it_are_found_by_what_they_hold(folder):
    lines = [question("1", "train", "docs"), question("2", "test", "docs"), question("3", "test", "docs")]
    (folder / "ask.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "more.jsonl").write_text('{"id": "x", "title": "No", "text": "A document"}\n', encoding="utf-8")
    result = init("docs")
    assert "questions ask: ask.jsonl (2 test, 1 train)" in result.stdout
    (name,), (found,) = zip(*config.load(folder / "mog.yaml").question_sets.items(), strict=True)
    assert (name, found.path) == ("ask", folder / "ask.jsonl")
    assert (found.corpora, found.train, found.test) == (["docs"], ["train"], ["test"])


def test_questions_that_are_all_for_training_are_measured_on(folder):
    with gzip.open(folder / "q.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.write(question("1", "train"))
    assert init("docs", "--questions", folder / "q.jsonl.gz").exit_code == 0
    found = config.load(folder / "mog.yaml").question_sets["q"]
    assert (found.train, found.test) == ([], ["train"])


def test_a_single_corpus_has_the_name_that_evidence_has_for_it(folder):
    (folder / "questions.jsonl").write_text(question("1", "test", "handbook"), encoding="utf-8")
    assert init("docs").exit_code == 0
    assert list(config.load(folder / "mog.yaml").corpora) == ["handbook"]


def test_evidence_in_corpora_that_are_not_there_is_said(folder):
    lines = [question("1", "test", "docs"), question("2", "test", "elsewhere")]
    (folder / "ask.jsonl").write_text("\n".join(lines), encoding="utf-8")
    result = init("docs")
    assert result.exit_code == 0 and "evidence lies in elsewhere, but no corpus has that name" in result.stderr


def test_questions_among_the_documents_are_said(folder):
    (folder / "docs" / "ask.jsonl").write_text(question("1", "test", "docs"), encoding="utf-8")
    result = init("docs")
    assert "questions ask" in result.stdout
    assert "is in the folder of the corpus docs: it is read as questions, not as documents" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected a folder of documents (here: `mog init docs`), or --samples"),
        (["nowhere"], "nowhere: expected a file"),
        (["docs/a.txt"], "expected a folder, or a file that ends in .jsonl"),
        (["only"], f"expected documents ({', '.join(suffixes())}) in only, found none; the first: x.xyz"),
        (["docs", "--questions", "docs/b.md"], "b.md: expected a file that ends in .jsonl"),
        (["docs", "--column", "question=Frage"], "--column: expected a file of questions (--questions FILE), got none"),
        (["docs", "--questions", "x", "--column", "q=Frage"], "--column: expected fields of a question (id, question"),
        (["docs", "--samples"], "--samples: cannot be combined with FOLDER"),
    ],
)
def test_what_cannot_be_a_project_is_one_line_and_nothing_is_written(folder, arguments, said):
    (folder / "only").mkdir()
    (folder / "only" / "x.xyz").write_bytes(b"PK")
    result = init(*arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert said in line
    assert sorted(os.listdir(folder)) == ["docs", "only"]


def test_odd_names_become_names_of_corpora_and_yaml_keeps_paths(folder):
    for name in ("no", "Größe: 1 # ab", "...", "a b"):
        shutil.copytree(folder / "docs", folder / name)
    assert init("no", "Größe: 1 # ab", "...", "a b", folder / "docs", folder / "a b" / ".." / "docs").exit_code == 0
    corpora = config.load(folder / "mog.yaml").corpora
    assert [corpus.path.name for corpus in corpora.values()] == ["no", "Größe: 1 # ab", "...", "a b", "docs", "docs"]
    assert list(corpora) == ["no", "Gr-e-1-ab", "documents", "a-b", "docs", "docs-2"]


def test_the_samples_are_copied_and_make_the_project_of_the_repository(folder):
    result = init("--samples")
    assert result.exit_code == 0, result.stderr
    ours, theirs = config.load(folder / "mog.yaml"), config.load(ROOT / "mog.yaml")
    assert list(ours.corpora) == list(theirs.corpora) and list(ours.question_sets) == list(theirs.question_sets)
    names = [path.relative_to(folder / "samples") for path in sorted((folder / "samples").rglob("*")) if path.is_file()]
    samples = ROOT / "mog_assets" / "samples"
    assert names == [path.relative_to(samples) for path in sorted(samples.rglob("*")) if path.is_file()]
    assert all((folder / "samples" / name).read_bytes() == (samples / name).read_bytes() for name in names)
    again = init("--samples", "--config", "other.yaml")
    assert again.exit_code == 2 and "--samples: expected nothing at" in again.stderr


@pytest.mark.whole
def test_the_configuration_of_the_repository_is_what_init_writes():
    samples = ROOT / "mog_assets" / "samples"
    corpora = [find_documents(samples / name, Path(name).stem) for name in ("garden.jsonl", "workshop", "sky")]
    questions = [find_questions(samples / "questions.jsonl", "samples")]
    assert (ROOT / "mog.yaml").read_text(encoding="utf-8") == written(corpora, questions, ROOT)


# Tables of questions


TABLE = "Question,Answer,Quote,Owner\nWhat rises?,dough,makes dough rise,me\nWhat slows it?,salt,Salt slows,you\n"


def the_set(folder):
    (found,) = config.load(folder / "mog.yaml").question_sets.values()
    return found


@pytest.mark.parametrize("name", ["ask.csv", "ask.tsv", "docs/ask.csv"])
def test_a_table_of_questions_is_found_with_its_columns_and_needs_no_splits(folder, name):
    (folder / name).write_text(TABLE.replace(",", "\t") if name.endswith(".tsv") else TABLE, encoding="utf-8")
    result = init("docs")
    assert result.exit_code == 0, result.stderr
    assert (
        f"questions ask: {name} (2 questions, divided by document into train and test; columns: question = 'Question', "
        "answer = 'Answer', quote = 'Quote'; not used: Owner)"
    ) in result.stdout
    assert "documents docs: docs (1 .txt, 1 .md; not read" in result.stdout
    text = (folder / "mog.yaml").read_text(encoding="utf-8")
    assert text[text.index("  ask:\n") : text.index("\n\n# Further")] == (
        f"  ask:\n    path: {name}\n    corpora: [docs]"
    )
    assert (the_set(folder).train, the_set(folder).test) == (["train"], ["test"])


@pytest.mark.whole
def test_a_parquet_file_of_questions_is_found(folder):
    rows = [{"question": f"Which {n}?", "docs": {"a.txt": 2}, "split": "dev" if n else None} for n in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "ask.parquet")
    result = init("docs")
    assert "questions ask: ask.parquet (2 dev, 1 without a split, divided by document into train and test" in (
        result.stdout
    )
    assert (the_set(folder).train, the_set(folder).test) == (["train"], ["dev", "test"])


@pytest.mark.parametrize(
    ("content", "is_one"),
    [
        (TABLE, True),
        ("query;relevant documents\nwhy;a.txt\n", True),
        ("title,text,question\nDough,It rises,Why?\n", False),
        ("id,name\n1,Dough\n", False),
        ("", False),
        ("question\n", False),
    ],
)
def test_questions_are_told_from_documents_by_columns(folder, content, is_one):
    (folder / "it.csv").write_text(content, encoding="utf-8")
    assert look_at(folder / "it.csv") == (is_one, "")
    result = init("it.csv", "docs")
    assert result.exit_code == 0, result.stderr
    assert ("questions it: it.csv" in result.stdout) is is_one


def test_columns_of_other_names_are_named(folder):
    (folder / "ask.csv").write_text("Frage;Fundstelle\nWas geht auf?;makes dough rise\n", encoding="utf-8")
    result = init("docs", "--questions", "ask.csv")
    assert result.exit_code == 2
    assert "ask.csv: expected a column `question`, found Frage, Fundstelle" in result.stderr
    assert "--column question=NAME`" in result.stderr and not (folder / "mog.yaml").exists()
    result = init("docs", "--questions", "ask.csv", "--column", "question=Frage", "--column", "quote=Fundstelle")
    assert result.exit_code == 0, result.stderr
    assert "columns: question = 'Frage', quote = 'Fundstelle'" in result.stdout
    assert the_set(folder).columns == {"question": "Frage", "quote": "Fundstelle"}


GERMAN = "Frage;Antwort;Zitat\nWas geht auf?;Teig;makes dough rise\nWas bremst?;Salz;Salt slows it down\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("questions.csv", GERMAN, "expected a column `question`, found Frage, Antwort, Zitat"),
        (
            "questions.jsonl",
            '{"frage": "Warum?", "antwort": "Darum."}\n',
            "expected a key `question`, found frage, antwort",
        ),
        ("questions-of-bakers.csv", "title,text\nDough,Why does it rise?\n", ""),
        ("faq.csv", GERMAN, ""),
    ],
)
def test_a_file_that_is_called_questions_is_not_passed_over_in_silence_unless_it_has_documents(
    folder, name, content, message
):
    (folder / name).write_text(content, encoding="utf-8")
    result = init("docs")
    assert result.exit_code == 0 and "question_sets:\n  questions" not in (folder / "mog.yaml").read_text()
    assert message in result.stderr and bool(result.stderr) == bool(message)
    assert not message or (
        "--column question=NAME" in result.stderr and "unless `--questions` names it" in result.stderr
    )


def test_questions_of_which_nothing_is_known_say_which_columns_to_name(folder):
    (folder / "ask.csv").write_text(GERMAN, encoding="utf-8")
    result = init("docs", "--questions", "ask.csv", "--column", "question=Frage")
    assert result.exit_code == 0
    assert "not used: Antwort, Zitat; nothing says what answers them" in result.stdout
    assert "`--column quote=NAME`" in result.stdout and "`--column answer=NAME`" in result.stdout


def test_rows_that_cannot_be_read_are_counted(folder):
    (folder / "ask.csv").write_text(TABLE + "What else?,x,y,z,more\n,y,z,\n", encoding="utf-8")
    said = "2 that cannot be read; the first: ask.csv:4: expected at most 4 columns as in the header, got 5"
    assert said in init("docs").stdout


def test_a_file_of_questions_alone_is_no_corpus(folder):
    (folder / "ask.csv").write_text(TABLE, encoding="utf-8")
    result = init("ask.csv")
    assert result.exit_code == 2
    assert "expected documents, got only files of questions (ask.csv): name the folder of the documents too" in (
        result.stderr
    )


def test_questions_among_the_documents_are_not_read_as_documents(folder):
    (folder / "docs" / "ask.csv").write_text(TABLE, encoding="utf-8")
    assert init("docs").exit_code == 0
    settings = config.load(folder / "mog.yaml")
    asked = [os.path.realpath(settings.question_sets["ask"].path)]
    reading = read_corpus(settings.corpora["docs"].path, questions=asked)
    assert [document.id for document in reading.documents] == ["a.txt", "b.md"]
    assert ("ask.csv", "a file of questions of `question_sets`: its lines are no documents") in [
        (skipped.place, skipped.reason) for skipped in reading.skipped
    ]
    before = source_state(folder / "docs", 1000, asked)
    (folder / "docs" / "ask.csv").write_text(TABLE + TABLE, encoding="utf-8")
    assert source_state(folder / "docs", 1000, asked) == before != source_state(folder / "docs", 1000)


def test_the_folder_of_a_new_configuration_need_not_exist(folder):
    (folder / "docs" / "ask.csv").write_text(TABLE, encoding="utf-8")
    result = init("docs", "--config", "new/project/mog.yaml")
    assert result.exit_code == 0, result.stderr
    settings = config.load(folder / "new" / "project" / "mog.yaml")
    assert settings.question_sets["ask"].path == folder / "docs" / "ask.csv"


def test_lines_are_questions_if_one_of_them_is(folder):
    rows = [{"question": "Why?", "answer": "a"}, {"question": "When?", "answer": "b", "text": "x"}]
    (folder / "ask.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "told.jsonl").write_text(json.dumps(rows[1]) + "\n", encoding="utf-8")
    assert look_at(folder / "ask.jsonl") == (True, "") and look_at(folder / "told.jsonl") == (False, "")
