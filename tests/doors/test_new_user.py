"""The way of a new user in a row: a folder of PDF files, a spreadsheet of questions, `mog init`, `mog run`."""

import csv
import json
import re

import pytest
from pdf_file import pdf_of
from served import ran
from shared import PAPERS, SAMPLES

from mog_assets import config
from mog_assets.questions.sets import load_questions
from mog_assets.resources.store import Store

pytestmark = pytest.mark.full

QUESTIONS = 40
NOWHERE = "The committee met on Tuesday and approved the minutes of the previous meeting without discussion."
# Its row, from 0.
LOST = 7
# Enough to see all that is told; the settings of `mog init` as they are take minutes (see test_docs.py).
QUICK = f"""
levels: 2
methods: [fused, {"mog, " if PAPERS else ""}mix, fixed-1, dense-1, random, gold]
answering: {{methods: []}}
"""


def documents():
    """Texts of the documents, by name."""
    found = {}
    for path in sorted([*SAMPLES.glob("workshop/*.md"), *SAMPLES.glob("sky/*.txt")]):
        text = re.sub(r"^#+ *", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        found[path.stem] = text.encode("ascii", "ignore").decode()
    return found


def letters(text):
    return re.sub(r"[\W_]", "", text.casefold())


def spreadsheet(texts):
    """Rows of question, answer and quote as people write them: some quotes are damaged, one is of no document."""
    rows, there = [], letters("".join(texts.values()))
    for line in (SAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        quote = record["evidence"][0]["quote"]
        if record["evidence"][0]["corpus"] in ("workshop", "sky") and letters(quote) in there:
            damaged = (quote.upper(), "\n".join(quote.split(" ")), f"  {quote.replace(',', '')} ", quote, quote)
            rows.append([record["question"], record["answer"], damaged[len(rows) % 5]])
    rows = rows[:: len(rows) // QUESTIONS][:QUESTIONS]
    rows[LOST][2] = NOWHERE
    return rows


def test_pdf_files_and_a_spreadsheet_become_a_project_with_a_leaderboard(tmp_path):
    folder, texts = tmp_path / "shop", documents()
    (folder / "manuals").mkdir(parents=True)
    for name, text in texts.items():
        (folder / "manuals" / f"{name}.pdf").write_bytes(pdf_of(text, name.capitalize()))
    rows = spreadsheet(texts)
    with (folder / "questions.csv").open("w", encoding="utf-8-sig", newline="") as stream:
        csv.writer(stream).writerows([["Question", "Answer", "Quote"], *rows])
    first, second, last = ran(folder, "init", "manuals").splitlines()
    assert first == "documents manuals: manuals (18 .pdf)" and last.startswith("Wrote mog.yaml. Next: `mog run`")
    assert second == (
        "questions shop: questions.csv (40 questions, divided by document into train and test; columns: "
        "question = 'Question', answer = 'Answer', quote = 'Quote')"
    )
    with (folder / "mog.yaml").open("a", encoding="utf-8") as stream:
        stream.write(QUICK)
    printed = ran(folder, "run")

    stored = Store(config.load(folder / "mog.yaml").home).read("questions")
    questions = load_questions(stored.path("shop.parquet"))
    assert [q.question for q in questions if not q.evidence] == [rows[LOST][0]]
    lost = stored.manifest.info["summary"]["shop"]
    assert lost["lost"] == 1 and lost["first lost"].startswith(f"questions.csv:{LOST + 2}: quote: expected text of a")
    train, tested = ([q for q in questions if q.split == part and q.evidence] for part in ("train", "test"))
    documents_of = {q.document for q in tested}
    assert min(len(train), len(tested)) > 10 and not documents_of & {q.document for q in train}
    assert f"shop: {len(tested)} questions on {len(documents_of)} documents, value [95 % interval]" in printed
    assert re.search(r"^`auto` is `\S+`: .* training questions on \d+ documents", printed, re.MULTILINE)
    assert re.search(r"^Use `\S+`", printed, re.MULTILINE)
    value = {m[1]: float(m[2]) for m in re.finditer(r"^│ (\w+) +│.*?│ (0\.\d+|1\.000) \[", printed, re.MULTILINE)}
    assert value["gold"] == 1 and value["random"] < 0.2 < 0.6 < value["fused"]
    assert {"mix", *(["mog"] if PAPERS else [])} <= value.keys()
    assert "Everything is up to date" in ran(folder, "run")
