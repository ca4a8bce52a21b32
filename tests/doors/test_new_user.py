"""The way of a new user: a folder of PDF files, a spreadsheet of questions, `mog init`, `mog run`."""

import csv
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pytest
from pdf_file import pdf_of
from shared import PAPERS, ROOT, SAMPLES, VARIABLES

from mog_assets import config
from mog_assets.questions.sets import load_questions
from mog_assets.resources.store import Store

# What other tests try one by one is done here in a row.
pytestmark = pytest.mark.full

# Stands in two documents.
NOTICE = "Wear gloves and goggles whenever you mix, pour or cut, and keep children and animals out of the room."
SHARED = ("soap", "concrete")
QUESTIONS = 40
NOWHERE = (
    "The committee met on Tuesday and approved the minutes of the previous meeting without discussion.",
    "Revenue of the third quarter rose by eleven percent against the same quarter of the year before.",
)
# Their rows, from 0.
LOST = (7, 23)
# Enough to see all that is told; the settings of `mog init` as they are take minutes (see test_docs.py).
QUICK = f"""
levels: 2
methods: [fused, {"mog, " if PAPERS else ""}mix, fixed-1, dense-1, random, gold]
answering: {{methods: []}}
"""


def documents():
    """Title and text of the documents, by name."""
    found = {}
    for path in sorted([*SAMPLES.glob("workshop/*.md"), *SAMPLES.glob("sky/*.txt")]):
        text = re.sub(r"^#+ *", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        text = text.encode("ascii", "ignore").decode()
        found[path.stem] = f"{text}\n\n{NOTICE}" if path.stem in SHARED else text
    return found


def spreadsheet():
    """Rows of question, answer and quote as people write them: some quotes are damaged, two are of no document."""
    lines = [json.loads(line) for line in (SAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    there = documents()
    rows = []
    for record in lines:
        piece = record["evidence"][0]
        if piece["corpus"] in ("workshop", "sky") and re.sub(r"\W", "", piece["quote"]) in re.sub(
            r"\W", "", "".join(there.values())
        ):
            rows.append([record["question"], record["answer"], piece["quote"]])
    rows = rows[:: len(rows) // QUESTIONS][: QUESTIONS - 2]
    for i, row in enumerate(rows):
        if i % 5 == 0:
            row[2] = row[2].upper()
        elif i % 5 == 1:
            row[2] = "\n".join(row[2].split(" "))
        elif i % 5 == 2:
            row[2] = f"  {row[2].replace(',', '')} "
    for row, quote in zip(LOST, NOWHERE, strict=True):
        rows[row][2] = quote
    return [*rows, ["What should I wear when I mix?", "gloves", NOTICE], ["Who has to stay out?", "animals", NOTICE]]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    """A project as a newcomer makes it, and what the commands printed."""
    folder = tmp_path_factory.mktemp("new") / "shop"
    (folder / "manuals").mkdir(parents=True)
    for name, text in documents().items():
        (folder / "manuals" / f"{name}.pdf").write_bytes(pdf_of(text, name.capitalize()))
    with (folder / "questions.csv").open("w", encoding="utf-8-sig", newline="") as stream:
        csv.writer(stream).writerows([["Question", "Answer", "Quote"], *spreadsheet()])
    made = mog(folder, "init", "manuals")
    with (folder / "mog.yaml").open("a", encoding="utf-8") as stream:
        stream.write(QUICK)
    ran = mog(folder, "run")
    return SimpleNamespace(folder=folder, init=made, run=ran, settings=config.load(folder / "mog.yaml"))


def mog(folder, *arguments):
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment["PYTHONPATH"] = str(ROOT)
    words = [sys.executable, "-m", "mog_assets.cli", *arguments]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)


def letters(text):
    return re.sub(r"[\W_]", "", text.casefold())


def stored_questions(newcomer):
    stored = Store(newcomer.settings.home).read("questions")
    told = pd.read_parquet(stored.path("_evidence.parquet"))
    return {q.question: q for q in load_questions(stored.path("shop.parquet"))}, told, stored.manifest


def test_init_says_what_it_found_and_which_columns_it_uses(newcomer):
    assert newcomer.init.code == 0 and newcomer.init.err == ""
    first, second, last = newcomer.init.out.splitlines()
    assert first == "documents manuals: manuals (18 .pdf)"
    assert second == (
        "questions shop: questions.csv (40 questions, divided by document into train and test; columns: "
        "question = 'Question', answer = 'Answer', quote = 'Quote')"
    )
    assert last.startswith("Wrote mog.yaml. Next: `mog run`")


def test_every_quote_that_stands_in_a_pdf_is_found_whatever_its_case_and_line_breaks(newcomer):
    questions, told, manifest = stored_questions(newcomer)
    documents = Store(newcomer.settings.home).read("documents", "manuals")
    tables = [pd.read_parquet(documents.path(name)) for name in documents.names("bucket")]
    texts = {row["id"]: row["text"] for table in tables for _, row in table.iterrows()}
    for at, (question, _, quote) in enumerate(spreadsheet()):
        evidence = questions[question.strip()].evidence
        if at in LOST:
            assert questions[question.strip()].level == "answer"
            continue
        assert evidence, question
        for e in evidence:
            assert letters(texts[e.doc][e.start : e.end]) == letters(quote)
    assert sorted(told["found"].value_counts().to_dict()) == ["", "exact", "normalised"]
    assert {e.doc for e in questions["What should I wear when I mix?"].evidence} == {"soap.pdf", "concrete.pdf"}
    assert manifest.counts["shop: quotes at several places"] == 2


def test_quotes_that_no_document_has_are_told_with_their_row(newcomer):
    _, told, manifest = stored_questions(newcomer)
    lost = told[told["not found"] != ""]
    assert [int(place.rpartition(":")[2]) for place in lost["place"]] == [row + 2 for row in LOST]
    assert (lost["score"] == 0).all() and (lost["level"] == "answer").all()
    said = manifest.info["summary"]["shop"]
    assert said["lost"] == 2 and said["first lost"].startswith("questions.csv:9: quote: expected text of a document")


def test_questions_are_divided_by_document_and_no_document_is_in_both_parts(newcomer):
    questions, _, manifest = stored_questions(newcomer)
    parts = {part: {q.document for q in questions.values() if q.split == part} for part in ("train", "test")}
    assert not parts["train"] & parts["test"]
    said = manifest.info["summary"]["shop"]
    assert said["divided"] == QUESTIONS == said["train"]["questions"] + said["test"]["questions"]
    assert min(said[part]["questions"] for part in ("train", "test")) > 10


def test_the_run_ends_with_a_leaderboard_of_the_test_questions_and_the_method_in_use(newcomer):
    assert newcomer.run.code == 0, newcomer.run.err
    questions, _, _ = stored_questions(newcomer)
    tested = [q for q in questions.values() if q.split == "test" and q.evidence]
    documents = {q.document for q in tested}
    assert f"shop: {len(tested)} questions on {len(documents)} documents, value [95 % interval]" in newcomer.run.out
    assert re.search(r"^`auto` is `\S+`: .* training questions on \d+ documents", newcomer.run.out, re.MULTILINE)
    assert re.search(r"^Use `\S+`", newcomer.run.out, re.MULTILINE)
    value = {
        m[1]: float(m[2]) for m in re.finditer(r"^│ (\w+) +│.*?│ (0\.\d+|1\.000) \[", newcomer.run.out, re.MULTILINE)
    }
    assert value["gold"] == 1 and value["random"] < 0.2 < 0.6 < value["fused"]
    assert {"mix", *(["mog"] if PAPERS else [])} <= value.keys()


def test_a_second_run_has_nothing_to_do(newcomer):
    again = mog(newcomer.folder, "run")
    assert again.code == 0 and "Everything is up to date" in again.out
