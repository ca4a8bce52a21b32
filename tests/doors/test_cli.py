"""The command `mog` as people call it: output, exit codes, one line for what went wrong."""

import json
import os
import subprocess
import sys
from email.message import EmailMessage

import pytest
import yaml
from shared import called, one_line

from mog_assets.cli.documents import left_out
from mog_assets.config import load
from mog_assets.evaluate.measures import measure_names
from mog_assets.search.methods import controls, named_methods

QUESTION = "Why does bread dough rise?"


def mog(*arguments, **variables):
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "mog_assets.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=300,
    )


@pytest.fixture
def project(tmp_path, make_project, write_documents):
    """A project of one small corpus, nothing of it made yet."""
    source = write_documents(tmp_path / "notes.jsonl", [("a", "Bread dough rises. Yeast makes gas.")])
    return make_project(tmp_path, {"corpora": {"notes": {"path": str(source)}}, "levels": 2})


def changed(project, **values):
    """The configuration of a project with other values."""
    raw = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    path = project.folder / "changed.yaml"
    path.write_text(yaml.safe_dump({**raw, **values}, sort_keys=False), encoding="utf-8")
    return path


# Output


def test_retrieve_prints_k_passages_as_json(sample_project):
    result = mog("search", QUESTION, "--k", 3, "--json", "--config", sample_project.config)
    assert result.returncode == 0, result.stderr
    passages = json.loads(result.stdout)
    assert len(passages) == 3
    for passage in passages:
        place = {name: passage[name] for name in ("corpus", "document", "start", "end")}
        assert passage["spans"] == [place] and {"title", "level", "score", "page", "headings", "source"} < set(passage)
        assert len(passage["text"]) == passage["end"] - passage["start"] > 0


def test_retrieve_prints_what_fits_into_the_configured_budget_from_the_corpora_of_the_question_set(copied_project):
    own = yaml.safe_load(copied_project.config.read_text(encoding="utf-8"))["question_sets"]["samples"]
    sets = {"samples": own, "stars": {**own, "corpora": ["sky"]}}
    path = changed(copied_project, budget=2000, question_sets=sets)
    for name, searched in (("samples", "workshop"), ("stars", "sky")):
        arguments = ["--method", "dense-1", "--question-set", name, "--json", "--config", path]
        passages = json.loads(called("search", QUESTION, *arguments).stdout)
        assert passages[0]["corpus"] == searched
        assert name == "samples" or {passage["corpus"] for passage in passages} == {searched}
        assert 1000 < sum(len(passage["text"]) for passage in passages) <= 2000


def test_scores_print_every_measure_of_every_method_as_json(sample_project):
    result = called("scores", "--json", "--config", sample_project.config)
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    settings = sample_project.settings
    assert len(rows) == len([*named_methods(settings), *controls()]) * len(measure_names(settings.k))
    wanted = ["question_set", "split", "method", "measure", "value", "low", "high", "n", "coverage", "p_vs_best_fixed"]
    for row in rows:
        assert set(wanted) <= set(row)
        assert row["low"] <= row["value"] <= row["high"] and 0 <= row["coverage"] <= 1
        assert row["p_vs_best_fixed"] is None or 0 <= row["p_vs_best_fixed"] <= 1
    assert any(row["p_vs_best_fixed"] is None for row in rows)
    assert any(row["p_vs_best_fixed"] is not None for row in rows)


def test_verify_of_a_sound_home_exits_with_zero(sample_project):
    result = called("verify", "--config", sample_project.config)
    assert result.exit_code == 0
    assert result.stdout.strip() == f"{len(sample_project.report.steps)} artefacts checked, 0 faults"


def test_verify_of_a_home_with_nothing_in_it_exits_with_one(project):
    result = called("verify", "--config", project.config)
    assert result.exit_code == 1
    assert "documents of corpus notes: not materialised" in result.stderr


def test_a_run_with_nothing_to_do_says_so(sample_project):
    result = called("run", "--config", sample_project.config)
    assert result.exit_code == 0 and "nothing was recomputed" in result.stdout


def test_a_run_says_first_how_much_it_builds_and_how_long_that_took_last_time(project, write_documents):
    once = ("run", "--config", project.config, "--select", "documents")
    assert called(*once).stderr.startswith("1 asset to check or build, 1 of them for the first time: ")
    write_documents(project.folder / "notes.jsonl", [("b", "Rye bread keeps for a week.")])
    assert called(*once).stderr.startswith("1 asset to check or build; they took ")


# Exit code 2: what was asked for cannot be


def test_a_missing_configuration_is_bad_usage(tmp_path):
    result = mog("run", "--config", tmp_path / "absent.yaml")
    assert (result.returncode, result.stdout) == (2, "")
    assert str(tmp_path / "absent.yaml") in one_line(result.stderr)


def test_an_unknown_key_is_bad_usage_with_the_key_that_was_meant(project):
    result = mog("run", "--config", changed(project, retreiver="bm25"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "retreiver: expected a known key" in one_line(result.stderr)
    assert "did you mean 'retriever'?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search", QUESTION, "--method", "fixed-9"], "got 'fixed-9'"),
        (["search", QUESTION, "--question-set", "none"], "--question-set: expected one of none, got 'none'"),
        (["search", " "], "question: expected a question"),
        (["run", "--corpus", "nots"], "--corpus: expected one of notes, got 'nots'"),
        (["run", "--select", "chunks/level_7"], "got 'chunks/level_7'"),
    ],
)
def test_an_unknown_name_is_bad_usage(project, arguments, said):
    result = called(*arguments, "--config", project.config)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in one_line(result.stderr)
    assert not (project.home / "store").exists()


# Exit code 1: it was tried and failed


@pytest.mark.full
@pytest.mark.parametrize("package", ["fastapi", "prometheus_client"])
def test_a_missing_extra_is_named(project, package):
    code = f"import sys; sys.modules[{package!r}] = None; from mog_assets.cli import main; main()"
    words = [sys.executable, "-c", code, "serve", "--config", str(project.config)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'mog-assets[serve]'" in one_line(done.stderr)


@pytest.mark.parametrize("command", ["search", "ask"])
@pytest.mark.parametrize("question", ["--rebase-merges", "-i", "--autosquash=what is it?", "-- and ++"])
def test_a_question_may_begin_with_dashes(project, command, question):
    # It is read as the question: what is missing is the run.
    for arguments in ((question,), ("--", question), ("--json", question), (question, "--json")):
        result = called(command, "--config", project.config, *arguments)
        assert result.exit_code == 1 and "run `mog run`" in one_line(result.stderr)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--bugdet", "600", "What rises?"), "Did you mean one of: '--budget', '--budget-tokens'?"),
        (("What rises?", "--bugdet", "600"), "Did you mean one of: '--budget', '--budget-tokens'?"),
        (("What rises?", "--rebase-merges"), "No such option '--rebase-merges'"),
        (("--rebase-merges", "--autosquash"), "No such option '--rebase-merges'"),
    ],
)
def test_a_misspelt_option_is_no_question(project, arguments, said):
    result = called("search", "--config", project.config, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr and "put `--` before it" in result.stderr


@pytest.mark.whole
@pytest.mark.parametrize("command", [["scores"], ["export"]])
def test_what_was_never_measured_cannot_be_shown(project, command):
    sets = {"q": {"path": "q.jsonl", "corpora": ["notes"], "test": ["dev"]}}
    result = called(*command, "--config", changed(project, question_sets=sets))
    assert result.exit_code == 1
    assert "has not been materialised: run `mog run`" in one_line(result.stderr)


@pytest.mark.full
def test_an_encoder_that_does_not_load_is_one_line_with_its_name(project):
    config = changed(project, encoder={"model": "nobody/nothing"})
    result = mog("run", "--config", config, HF_HUB_OFFLINE="1")
    assert result.returncode == 1
    assert "encoder.model" in one_line(result.stderr) and "nobody/nothing" in result.stderr
    assert "Traceback" not in result.stdout


def test_run_says_which_documents_were_passed_over(project):
    source = project.folder / "notes.jsonl"
    source.write_text(source.read_text(encoding="utf-8") + "{broken\n" + '{"id": "e", "text": " "}\n', encoding="utf-8")
    result = called("run", "--config", project.config, "--select", "documents")
    assert result.exit_code == 0
    assert "notes: 2 documents skipped; the first: notes.jsonl:2: malformed JSON" in result.output
    assert "2 documents skipped" in result.stdout.split("notes:")[0]
    assert "`mog documents --skipped` lists all" in result.output
    rows = json.loads(called("documents", "--config", project.config, "--skipped", "--json").output)
    assert [(row["corpus"], row["place"], row["id"]) for row in rows] == [
        ("notes", "notes.jsonl:2", ""),
        ("notes", "notes.jsonl:3", "e"),
    ]
    assert rows[1]["reason"] == "empty document"
    listed = json.loads(called("documents", "--config", project.config, "--list", "--corpus", "notes", "--json").output)
    (row,) = listed
    assert row == {**row, "corpus": "notes", "id": "a", "title": "a", "characters": 35, "notes": {}}
    assert called("documents", "--config", project.config, "--list", "--skipped").exit_code == 2
    table = called("documents", "--config", project.config, "--skipped", "--corpus", "notes").output
    assert "notes.jsonl:2" in table and "malformed JSON" in table and "empty document" in table


@pytest.mark.whole
def test_files_that_are_not_read_and_what_is_left_out_of_others_are_counted_by_kind(project):
    folder = project.folder / "mixed"
    folder.mkdir()
    (folder / "page.txt").write_text("A page of words.", encoding="utf-8")
    message = EmailMessage()
    message["Subject"] = "Plan"
    message.set_content("See the plan.")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="plan.pdf")
    (folder / "mail.eml").write_bytes(message.as_bytes())
    for number in range(30):
        (folder / f"photo{number}.JPG").touch()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    (folder / "lines.jsonl").write_text('{"id": "a", "text": "Alone."}\n{broken\n', encoding="utf-8")
    config = changed(project, corpora={"mixed": {"path": str(folder)}})
    result = called("run", "--config", config, "--select", "documents")
    assert (
        "mixed: 31 files not read (.jpg: 30, .pdf: 1) and 1 document skipped; the first: broken.pdf:" in result.output
    )
    assert "mixed: documents with attachments not read: 1" in result.output
    (row,) = json.loads(called("documents", "--config", config, "--json").output)
    assert (row["files not read"], row["skipped"]) == ({".jpg": 30, ".pdf": 1}, 32)
    assert row["notes"] == {"attachments not read": 1}
    listed = json.loads(called("documents", "--config", config, "--list", "--json").output)
    assert {row["id"]: row["notes"] for row in listed}["mail.eml"] == {"attachments not read": ["plan.pdf"]}
    assert "attachments not read" in called("documents", "--config", config, "--list").output
    assert any("31 files not read" in said for said in left_out(load(config)))


def test_a_corpus_that_is_not_there_has_no_documents_to_count(project):
    assert called("run", "--config", project.config, "--select", "documents").exit_code == 0
    (row,) = json.loads(called("documents", "--config", project.config, "--json").output)
    assert (row["corpus"], row["skipped"]) == ("notes", 0)
    result = called("documents", "--config", project.config, "--corpus", "none")
    assert result.exit_code == 2 and "--corpus: expected one of notes, got 'none'" in one_line(result.stderr)
    assert "No document was skipped." in called("documents", "--config", project.config, "--skipped").output


def test_failed_run_does_not_claim_that_everything_is_up_to_date(project):
    (project.folder / "notes.jsonl").unlink()
    result = called("run", "--config", project.config)
    assert result.exit_code == 1
    assert "up to date" not in result.output
    assert "found nothing" in one_line(result.stderr)


def test_a_failure_is_said_once_and_not_what_follows_from_it(project):
    (project.folder / "asked.csv").write_text("Frage;Antwort\nWhat rises?;Dough\n", encoding="utf-8")
    asked = {"asked": {"path": "asked.csv", "corpora": ["notes"]}}
    path = changed(project, question_sets=asked, answering={"methods": []})
    # What is built from the questions, at one and at two removes; the corpus is of no account here.
    keys = ("documents", "questions", "candidates", "mix", "known_items")
    result = called("run", "--config", path, *(word for key in keys for word in ("--select", key)))
    assert result.exit_code == 1
    said = one_line(result.stderr)
    assert "expected a column `question`, found Frage, Antwort" in said and "run `mog run`" not in said


def test_scores_of_a_project_without_questions_say_what_to_do(project):
    result = called("scores", "--config", project.config)
    assert result.exit_code == 0 and result.stderr == ""
    assert (
        "This project has no question set with a test split" in result.stdout
        and "question_sets.NAME.test" in result.stdout
    )
    assert json.loads(called("scores", "--config", project.config, "--json").stdout) == []
