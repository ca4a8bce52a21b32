"""What `mog questions`, `mog run` and `mog scores` say of questions: what was found, and who made them."""

import json
import re

import pyarrow.parquet as pq
import pytest
from animals import THINGS, quote_of, text_of, write_csv
from shared import called, quiet_instance

from mog_assets.questions import sets

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def read(tmp_path_factory, make_project, write_documents):
    """A project whose questions were read: without splits, two without their evidence, one not readable."""
    folder = tmp_path_factory.mktemp("read")
    write_documents(folder / "wild.jsonl", [(name, text_of(name)) for name in THINGS])
    rows = [{"id": f"q-{n}", "question": f"What does the {n} eat?", "quote": quote_of(n)} for n in THINGS]
    rows += [
        {"id": "lost", "question": "What does the yeti eat?", "quote": "In winter the yeti eats snow."},
        {
            "id": "away",
            "question": "What does \x1b[2J the elk eat?",
            "quote": "Grass.",
            "doc": "elk",
            "answer": "grass",
        },
        {"id": "blank", "question": "", "quote": quote_of("fox")},
    ]
    write_csv(folder / "faq.csv", rows)
    lines = [{"id": f"a-{n}", "question": f"Where is the {n}?", "split": "test", "answer": "here"} for n in THINGS]
    (folder / "told.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    project = make_project(
        folder,
        {
            "corpora": {"wild": {"path": "wild.jsonl"}},
            "question_sets": {
                "faq": {"path": "faq.csv", "corpora": ["wild"]},
                "told": {"path": "told.jsonl", "corpora": ["wild"], "test": ["test"]},
            },
            "levels": 2,
            "buckets": 1,
        },
    )
    quiet_instance(project.home)
    project.result = called("run", "--config", project.config, "--select", "documents", "--select", "questions")
    assert project.result.exit_code == 0, project.result.output
    return project


def test_a_run_says_what_was_found_of_questions(read):
    printed = read.result.stdout.splitlines()
    faq = [line for line in printed if line.startswith("faq: ")]
    divided, skipped, lost = faq[:3]
    used = re.fullmatch(
        r"faq: 14 questions without a split were divided by document: (\d+) questions? on (\d+) documents? "
        r"to train on, (\d+) on (\d+) to measure with\.",
        divided,
    )
    assert used and int(used[1]) + int(used[3]) == 14
    assert skipped.startswith("faq: 1 question was skipped; the first: faq.csv:") and "question: expected" in skipped
    assert lost.startswith("faq: the evidence of 2 questions was not found; the first: faq.csv:14: ")
    assert lost.endswith("; `mog questions --lost` lists all.")
    assert (
        "told: 12 of the 12 questions to measure with cannot measure retrieval: neither a place nor a document that "
        "answers them is known." in printed
    )


def test_questions_lists_what_was_found_of_each_and_how(read):
    rows = json.loads(called("questions", "--config", read.config, "--json").stdout)
    assert [row["question set"] for row in rows] == ["faq"] * 15 + ["told"] * 12
    found = {row["id"]: row for row in rows}
    fox = found["q-fox"]
    assert (fox["level"], fox["found"], fox["places"], fox["score"]) == ("spans", "exact", 1, 1.0)
    assert fox["question"] == "What does the fox eat?" and fox["split"] in ("train", "test")
    assert fox["not found"] == fox["skipped"] == ""
    assert found["lost"]["level"] == "none" and "yeti" in found["lost"]["not found"]
    assert found["away"]["level"] == "answer" and "elk" in found["away"]["not found"]
    assert found[""]["skipped"].startswith("faq.csv:16: question:") and found[""]["score"] is None
    lost = json.loads(called("questions", "--config", read.config, "--set", "faq", "--lost", "--json").stdout)
    assert [row["id"] for row in lost] == ["lost", "away", ""]


def test_questions_prints_tables_that_cannot_move_the_cursor(read):
    printed = called("questions", "--config", read.config).stdout
    assert "faq: 15 questions" in printed and "told: 12 questions" in printed
    assert "q-otter" in printed and "exact" in printed and "\x1b" not in printed
    assert called("questions", "--config", read.config, "--set", "told", "--lost").stdout == (
        "told: all evidence was found.\n"
    )


def test_questions_of_a_set_that_is_not_there_or_not_read_are_refused(read, tmp_path, make_project):
    result = called("questions", "--config", read.config, "--set", "faqs")
    assert result.exit_code == 2 and "expected a question set (faq, told), got 'faqs'" in result.stderr
    new = {"corpora": {"wild": {"path": str(read.folder / "wild.jsonl")}}}
    result = called("questions", "--config", make_project(tmp_path / "none", new).config)
    assert result.exit_code == 2 and "no question set" in result.stderr
    new["question_sets"] = {"faq": {"path": str(read.folder / "faq.csv"), "corpora": ["wild"]}}
    result = called("questions", "--config", make_project(tmp_path / "new", new).config)
    assert result.exit_code == 1 and "mog run" in result.stderr


def test_a_report_of_an_earlier_version_says_what_to_do(read, monkeypatch):
    written = pq.read_table
    monkeypatch.setattr(sets.pq, "read_table", lambda *a, **k: written(*a, **k).drop_columns(["question"]))
    result = called("questions", "--config", read.config)
    assert result.exit_code == 1 and "with question, got what an earlier version wrote: run `mog run`" in result.stderr


def test_questions_that_are_given_with_all_that_is_needed_are_not_spoken_of(sample_project):
    printed = called("scores", "--config", sample_project.config).stdout
    assert not [line for line in printed.splitlines() if line.startswith("samples: ") and "questions on" not in line]
