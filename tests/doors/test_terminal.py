"""Words from outside on their way to a terminal: whatever they hold, they move no cursor and turn no text around."""

import io
import json
import logging
import re
from contextlib import redirect_stderr

import pytest
import shared

from mog_assets.resources import progress
from mog_assets.resources.console import displayed

# Clears the screen, sets its title, hides text, turns it around, ends the line twice.
BAD = "\x1b[2J\x1b]0;owned\x07\x9b8m\u202e\u2066\u200f\u061c\u2028\u2029\x7f"
# What a terminal obeys. Tabs and ends of lines are part of a passage.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
TEXT = f"The Zanzibar fish eats{BAD} algae\tat noon.\r\nIt sleeps\rat night [/b].\n\nEvery {BAD} fish does."
QUESTION = "What does the Zanzibar fish eat?"


def harmless(printed):
    """Output that a terminal shows as it stands."""
    assert not OBEYED.search(printed), ascii(printed)
    return printed


def called(*arguments):
    """The command in this process."""
    result = shared.called(*arguments)
    harmless(result.output)
    return result


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, make_project, materialise_project):
    """A project whose documents and questions try to take over the terminal."""
    folder = tmp_path_factory.mktemp("hostile")
    document = {"id": f"fish{BAD}", "title": f"A fish{BAD}\nof stone", "text": TEXT, "by": BAD}
    other = {"id": f"other{BAD}", "title": "[red]Other[/red]", "text": "A stone is heavy."}
    (folder / "sea.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (document, other)), encoding="utf-8")
    question = {"id": f"q{BAD}", "question": f"[/b] {BAD}?", "quote": f"No{BAD} words.", "split": "test"}
    (folder / "asked.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    project = make_project(
        folder,
        {
            "corpora": {"sea": {"path": "sea.jsonl"}},
            "question_sets": {"asked": {"path": "asked.jsonl", "corpora": ["sea"], "train": [], "test": ["test"]}},
            "levels": 2,
            "buckets": 1,
            "answering": {"reader": "extractive", "methods": ["one-step"]},
            "methods": ["fixed-1"],
        },
    )
    materialise_project(project.settings)
    return project


def test_passages_of_hostile_documents_are_printed_as_text(hostile):
    printed = called("search", QUESTION, "--config", hostile.config, "--explain").stdout
    assert r"\u001b[2J\u001b]0;owned\u0007\u009b8m\u202e\u2066\u200f\u061c\u2028\u2029\u007f algae" in printed
    assert "algae\tat noon.\nIt sleeps\nat night [/b].\n\nEvery" in printed
    # A title is one line: it cannot pass for a passage of its own.
    assert not re.search("^of stone", printed, re.MULTILINE)


def test_json_of_hostile_documents_has_the_same_texts(hostile):
    printed = called("search", QUESTION, "--config", hostile.config, "--json").stdout
    passages = json.loads(printed)
    # Line ends are line feeds since the document was read.
    assert TEXT.replace("\r\n", "\n").replace("\r", "\n") in [passage["text"] for passage in passages]


def test_answers_of_hostile_documents_are_printed_as_text(hostile):
    printed = called("ask", QUESTION, "--config", hostile.config).stdout
    assert r"\u001b[2J" in printed
    told = called("ask", QUESTION, "--config", hostile.config, "--json").stdout
    assert BAD in json.dumps(json.loads(told), ensure_ascii=False).replace("\\u001b", "\x1b").replace("\\u0007", "\x07")


@pytest.mark.parametrize("arguments", [("questions",), ("questions", "--lost"), ("run",), ("scores", "--all")])
def test_hostile_questions_are_printed_as_text(hostile, arguments):
    assert called(*arguments, "--config", hostile.config).exit_code == 0


def test_brackets_in_a_question_are_no_markup(hostile):
    assert "[/b]" in called("questions", "--config", hostile.config).stdout


def test_errors_with_hostile_words_are_printed_as_text(hostile, tmp_path):
    said = called("search", "fish", "--config", hostile.config, "--method", f"best{BAD}").stderr
    assert r"best\u001b[2J" in said or r"best\x1b[2J" in said
    assert r"\u001b[2J" in called("search", "fish", BAD).stderr
    called(f"find{BAD}")
    called("documents", f"--{BAD}")
    folder = tmp_path / f"a{BAD}"
    folder.mkdir()
    assert r"\u001b[2J" in called("init", folder, "--config", tmp_path / "mog.yaml").stderr


def test_lines_of_the_log_are_printed_as_text(hostile):
    printed = io.StringIO()
    handler, log = logging.StreamHandler(printed), logging.getLogger("mog.test")
    log.addHandler(handler)
    try:
        # The command decides how the logs of its process look.
        called("verify", "--config", hostile.config)
        log.warning("no answer: %s", BAD)
        log.error("unexpected", exc_info=ValueError(BAD))
    finally:
        log.removeHandler(handler)
    assert harmless(printed.getvalue()).count(r"\u001b[2J") == 2


def test_progress_and_notes_are_printed_as_text(capsys):
    printed = io.StringIO()
    with redirect_stderr(printed):
        progress.note(BAD)
        with displayed():
            progress.note(BAD)
    assert harmless(printed.getvalue()).count(r"\u001b[2J") == 2
