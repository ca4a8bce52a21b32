"""The log of use: nothing unless it is switched on, nothing lost, nothing left of what is deleted."""

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from documentation import blocks
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from served import Served, environment
from shared import ROOT, called, until

import mog_assets
from mog_assets.plugins.feedback import use
from mog_assets.plugins.feedback.noting import Noting
from mog_assets.plugins.feedback.use import (
    UseEntry,
    expire,
    forget,
    log_path,
    note_used,
    quoted,
    state,
    use_records,
    withdraw,
)
from mog_assets.resources.errors import ConfigError, MogError, NotFound
from mog_assets.resources.publishing import newest
from mog_assets.serve.results import Span

pytestmark = pytest.mark.full

QUESTION = "How deep should garlic cloves be planted?"
SECRET = "Does aunt Philippa's zeppelin leak?"
TEXT = "Leeks like rain. Garlic does not. Leeks like rain, and sun."


@pytest.fixture
def log(tmp_path):
    return log_path(tmp_path / "home")


@pytest.fixture(scope="module")
def on(sample_project):
    """The sample project, whose use is noted; nothing of that stays in it."""
    values = yaml.safe_load(sample_project.config.read_text(encoding="utf-8"))
    path = sample_project.config.with_name("noted.yaml")
    path.write_text(yaml.safe_dump({**values, "use": {"log": True, "days": 30}}, sort_keys=False), encoding="utf-8")
    yield path
    shutil.rmtree(sample_project.home / "use", ignore_errors=True)


@pytest.fixture
def noted(on, sample_project):
    """The configuration and the log, which is empty before and after."""
    path = log_path(sample_project.home)
    for name in ("", "-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    yield on, path
    forget(path, everything=True)


@pytest.fixture(scope="module")
def served(on, tmp_path_factory):
    started = Served(on, tmp_path_factory.mktemp("serve"), "--max-question", 500, "--max-budget", 20_000)
    yield started
    started.end()


def note(log, question=SECRET, text=TEXT, start=0, end=16, corpus="garden", doc="leek"):
    return note_used(log, question, [quoted(corpus, doc, text, start, end)], "fused", "v1")


def asked(log, *questions):
    opened = UseEntry(log)
    opened.note(questions, "fused", "v1")
    opened.close()


def held(log):
    """All bytes of the folder of the log."""
    return b"".join(path.read_bytes() for path in sorted(log.parent.iterdir())) if log.parent.exists() else b""


def mog(*words):
    return called("use", *words)


def evidence(log):
    return {record["question"]: record.get("evidence") for _, record in use_records(log)}


# Records


def test_one_record_for_each_text_of_a_question(log):
    asked(log, "Do leeks\n like  rain?", "Why?")
    note(log, "Do leeks like rain?")
    note(log, "Do leeks like rain?", start=17, end=33)
    note(log, "When?", start=17, end=33)
    rain, garlic = ({"quote": quote, "corpus": "garden", "doc": "leek"} for quote in (TEXT[:16], TEXT[17:33]))
    assert evidence(log) == {"Do leeks like rain?": [rain, garlic], "Why?": None, "When?": [garlic]}
    assert [record["question"] for _, record in use_records(log, unanswered=False)] == ["Do leeks like rain?", "When?"]


def test_ids_depend_on_the_text_alone(log, tmp_path):
    asked(log, "Why?", "Garlic?")
    other = log_path(tmp_path / "other")
    asked(other, "Garlic?")
    ids = {record["question"]: record["id"] for _, record in use_records(log)}
    assert [record["id"] for _, record in use_records(other)] == [ids["Garlic?"]] != [ids["Why?"]]
    assert all(place.endswith(record["id"]) for place, record in use_records(log))


def test_passages_that_overlap_are_one_quote_unless_they_say_something_else(log):
    note(log, start=0, end=16)
    note(log, start=10, end=33)
    note(log, start=12, end=14)
    assert [e["quote"] for e in evidence(log)[SECRET]] == [TEXT[:33]]
    # The document was edited, and what stands at its beginning is now another text.
    note(log, text=TEXT.upper(), start=0, end=16)
    assert {e["quote"] for e in evidence(log)[SECRET]} == {TEXT[:33], TEXT[:16].upper()}


@given(st.text("ab", min_size=1, max_size=300), st.data())
@hypothesis(deadline=None)
def test_a_quote_and_what_is_around_it_stand_in_their_document_once(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    found = quoted("c", "d", text, start, end)
    whole = found.prefix + found.text + found.suffix
    assert found.text == text[start:end]
    assert text.find(whole) == start - len(found.prefix)
    assert text.find(whole, text.find(whole) + 1) == -1
    if text.count(found.text) == 1 and text.find(found.text, text.find(found.text) + 1) == -1:
        assert (found.prefix, found.suffix) == ("", "")


def test_a_text_of_nothing_but_repetitions_is_quoted_in_time():
    text = "a" * 3_000_000
    found = quoted("c", "d", text, 1_000_000, 1_000_001)
    assert found.text == "a" and len(found.prefix) == len(found.suffix) == 4096


def test_the_state_changes_when_and_only_when_rows_change(log):
    seen = [state(log)]
    asked(log, "Why?")
    seen.append(state(log))
    of_used = state(log, unanswered=False)
    asked(log, "Why?")
    seen.append(state(log))
    assert state(log, unanswered=False) == of_used
    identity = note(log)
    seen.append(state(log))
    assert state(log, unanswered=False) != of_used
    list(use_records(log)), use.entries(log), expire(log, 90), forget(log, question="What?")
    assert state(log) == seen[-1]
    withdraw(log, identity)
    seen.append(state(log))
    forget(log, everything=True)
    seen.append(state(log))
    # Another file, with as many changes.
    log.unlink()
    asked(log, "Why?")
    seen.append(state(log))
    assert seen[0] is None and len({str(one) for one in seen}) == len(seen)


# The file


def test_only_its_owner_can_read_the_file(log):
    before = os.umask(0)
    try:
        note(log)
        opened = UseEntry(log)
        opened.note(["Why?"], "fused", "v1")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in log.parent.iterdir()}
        opened.close()
    finally:
        os.umask(before)
    assert modes == {name: 0o600 for name in ("use.sqlite", "use.sqlite-wal", "use.sqlite-shm")}
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


WRITER = """
import sys
from pathlib import Path
from mog_assets.plugins.feedback.use import UseEntry, note_used, quoted
path, name, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
opened = UseEntry(path, 30)
print("ready", flush=True)
sys.stdin.readline()
for row in range(number):
    opened.note([f"{name} asked {row}"], "fused", "v")
    note_used(path, f"{name} used {row}", [quoted("c", "d", "A text.", 0, 6)], "fused", "v")
    print(row, flush=True)
"""


def writer(log, name, number):
    words = [sys.executable, "-c", WRITER, str(log), name, str(number)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = subprocess.Popen(words, env=environment(), **pipes)
    assert started.stdout.readline() == "ready\n"
    return started


def test_processes_that_begin_a_log_together_lose_nothing(log):
    writers = [writer(log, name, 50) for name in ("first", "second", "third")]
    for one in writers:
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in writers:
        _, _ = one.communicate(timeout=120)
        assert one.returncode == 0
    wanted = {
        f"{name} {what} {row}"
        for name in ("first", "second", "third")
        for what in ("asked", "used")
        for row in range(50)
    }
    assert set(evidence(log)) == wanted
    assert {name for name, found in evidence(log).items() if found} == {name for name in wanted if "used" in name}


def test_a_writer_that_is_killed_loses_nothing_that_it_had_noted(log):
    killed = writer(log, "killed", 1_000_000)
    killed.stdin.write("go\n")
    killed.stdin.flush()
    lines = [killed.stdout.readline() for _ in range(20)]
    os.kill(killed.pid, signal.SIGKILL)
    rest, _ = killed.communicate(timeout=60)
    done = len(lines) + len([line for line in rest.splitlines(keepends=True) if line.endswith("\n")])
    wanted = {f"killed {what} {row}" for what in ("asked", "used") for row in range(done)}
    assert wanted <= set(evidence(log))
    assert all(found for name, found in evidence(log).items() if "used" in name)
    note(log)


@pytest.mark.parametrize("broken", ["garbage", "another format", "a folder", "a file above"])
def test_a_log_that_cannot_be_used_is_an_error_that_names_it(log, broken):
    if broken == "a file above":
        log.parent.parent.mkdir(parents=True)
        log.parent.write_text("x")
    else:
        log.parent.mkdir(parents=True)
    if broken == "garbage":
        log.write_bytes(b"no database " * 1000)
    elif broken == "a folder":
        log.mkdir()
    elif broken == "another format":
        note(log)
        with sqlite3.connect(log) as connection:
            connection.execute("PRAGMA user_version = 7")
        connection.close()
    with pytest.raises(MogError, match=r"use\.sqlite"):
        note(log)
    with pytest.raises(MogError, match=r"use\.sqlite"):
        UseEntry(log).note([SECRET], "fused", "v1")


# Deletion


def test_nothing_is_left_of_what_was_deleted(log):
    long = SECRET + " ".join(f"word{number} Philippa" for number in range(5000))
    opened = UseEntry(log)
    # In between others, so that pages are split; long ones lie on pages of their own.
    for row in range(150):
        opened.note([f"{row} Why? " * (row % 40 + 1), f"{row} {SECRET} " * (row % 7 + 1)], "fused", "v1")
        note(log, long if row % 50 == 0 else f"{row} {SECRET}", text=f"Philippa says {row}. {TEXT}", start=0, end=40)
        note(log, f"{row} kept", text=f"{TEXT} {row}", start=0, end=len(TEXT))
    doomed = [entry for entry in use.entries(log) if "Philippa" in entry.question]
    assert len(doomed) == 300 and held(log).count(b"Philippa") > 10_000
    for entry in doomed[::3]:
        assert withdraw(log, entry.id)
    assert sum(forget(log, question=entry.question) for entry in doomed) == 200
    # One connection is still open.
    assert b"Philippa" not in held(log) and b"zeppelin" not in held(log)
    assert len([entry for entry in use.entries(log) if entry.quotes]) == 150
    assert forget(log) == forget(log, document=("garden", "none")) == 0
    opened.close()


def test_deleting_where_there_is_no_log_makes_none(log):
    assert (forget(log, everything=True), expire(log, 1), withdraw(log, "x"), use.entries(log)) == (0, 0, False, [])
    assert not log.parent.exists()


def grow_old(log, days):
    with sqlite3.connect(log) as connection:
        connection.execute("UPDATE entries SET time = time - ?", (days * 86_400,))
    connection.close()


def test_an_open_project_deletes_what_grows_old(on, log):
    from mog_assets import config

    noting = Noting(config.load(on).use, log.parent.parent, keep=True, every=0.05)
    noting.answered([SECRET, "Why?"], "fused", "v1")
    grow_old(log, 31)
    until(lambda: not use.entries(log))
    noting.close()
    assert b"Philippa" not in held(log)


# In Python


def test_nothing_is_written_unless_it_is_switched_on(copied_project):
    with mog_assets.open(copied_project.config) as project:
        found = project.search(QUESTION, k=1)
        project.ask(QUESTION)
        with pytest.raises(ConfigError, match=r"use: \{log: true\}"):
            project.used(QUESTION, found.passages[0])
    for words in (["list"], ["forget", "--all"], ["export", copied_project.folder / "out.jsonl"]):
        assert mog(*words, "--config", copied_project.config).exit_code == 0
    assert not (copied_project.home / "use").exists()


def test_what_is_asked_and_used_is_noted(noted):
    config, log = noted
    with mog_assets.open(config) as project:
        found = project.search(QUESTION, k=2)
        project.ask("Why is the sky blue?")
        project.search_many(["When are beans sown?", " When  are beans sown? "], k=1)
        first = project.used(QUESTION, found.passages[0], method=found.method)
        assert set(evidence(log)) == {QUESTION, "Why is the sky blue?", "When are beans sown?"}
        (one,) = evidence(log)[QUESTION]
        assert one == {"quote": found.passages[0].text, "corpus": "garden", "doc": "garlic"}
        entry = use.entries(log, 1)[0]
        assert (entry.id, entry.method, entry.version) == (first, found.method, found.version)
        project.withdraw(first)
        assert evidence(log)[QUESTION] is None
        with pytest.raises(NotFound):
            project.withdraw(first)
        with pytest.raises(ConfigError):
            project.search(" ")
    assert len(evidence(log)) == 3


def test_a_passage_must_stand_in_its_document(noted):
    from dataclasses import replace

    config, log = noted
    with mog_assets.open(config) as project:
        (passage,) = project.search(QUESTION, k=1).passages
        size = len(project.document("garden", "garlic").text)
        for start, end in ((0, 0), (5, 4), (-1, 5), (0, size + 1), (0, 10**30), (True, 5), ("0", 5), (0.0, 5)):
            with pytest.raises(ConfigError, match="passage: expected"):
                project.used(QUESTION, [Span("garden", "garlic", start, end)])
        with pytest.raises(ConfigError, match="at least one"):
            project.used(QUESTION, [])
        with pytest.raises(NotFound):
            project.used(QUESTION, [Span("garden", "../garlic", 0, 5)])
        with pytest.raises(NotFound):
            project.used(QUESTION, [Span("nowhere", "garlic", 0, 5)])
        with pytest.raises(ConfigError, match="has changed since"):
            project.used(QUESTION, replace(passage, text="Garlic is blue."))
        with pytest.raises(ConfigError, match="fixed-99"):
            project.used(QUESTION, passage, method="fixed-99")
        with pytest.raises(ConfigError, match="question"):
            project.used("\ud800", passage)
        assert not any(entry.quotes for entry in use.entries(log))
        several = [Span("garden", "garlic", 0, 20), Span("garden", "leek", 0, 20)]
        project.used(QUESTION, several)
    assert [e["doc"] for e in evidence(log)[QUESTION]] == ["garlic", "leek"]


def test_a_locked_log_fails_no_search_and_is_told_once(noted, caplog):
    config, log = noted
    asked(log, "Before?")
    with mog_assets.open(config) as project:
        holder = sqlite3.connect(log)
        holder.execute("BEGIN EXCLUSIVE")
        for _ in range(3):
            assert project.search(SECRET, k=1).passages
        assert project.unnoted == 3
        (warned,) = [r.getMessage() for r in caplog.records if "not noted" in r.getMessage()]
        assert "locked" in warned and "Philippa" not in warned
        holder.rollback()
        holder.close()
        project.search(SECRET, k=1)
        assert project.unnoted == 3
    assert list(evidence(log)) == ["Before?", SECRET]


def test_a_full_disk_fails_no_search(noted):
    config, log = noted
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
    limited += "from mog_assets.cli import main; main(sys.argv[1:])"
    words = ["search", QUESTION, "--k", "1", "--config", str(config)]
    done = subprocess.run(
        [sys.executable, "-c", limited, *words], env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "cloves" in done.stdout
    assert done.stderr.count("not noted") == 1 and QUESTION not in done.stderr
    assert QUESTION.encode() not in held(log)


def test_a_log_that_somebody_deletes_begins_anew(noted):
    config, log = noted
    with mog_assets.open(config) as project:
        project.search(SECRET, k=1)
        for path in log.parent.iterdir():
            path.unlink()
        project.search(QUESTION, k=1)
    assert list(evidence(log)) == [QUESTION]


def test_opening_deletes_what_is_old_also_after_it_was_switched_off(copied_project):
    log = log_path(copied_project.home)
    note(log)
    grow_old(log, 91)
    asked(log, QUESTION)
    with mog_assets.open(copied_project.config) as project:
        project.search("When are beans sown?")
    assert list(evidence(log)) == [QUESTION] and b"Philippa" not in held(log)


@pytest.mark.whole
def test_sets_exports_and_prune_leave_it_alone(copied_project, tmp_path):
    log = log_path(copied_project.home)
    note(log)
    with mog_assets.open(copied_project.config):
        assert b"/use" not in newest(copied_project.home).read_bytes()
    for words in (["prune", "--answers"], ["export", "--to", tmp_path / "out"]):
        result = called(*words, "--config", copied_project.config)
        assert result.exit_code == 0, result.output
    assert len(evidence(log)) == 1
    assert not any(b"Philippa" in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())


def test_the_program_of_the_page_notes_and_takes_back(noted, monkeypatch):
    config, log = noted
    (program,) = blocks(ROOT / "docs" / "use.md", "python")
    monkeypatch.setenv("MOG_CONFIG", str(config))
    exec(compile(program.replace('"mog.yaml"', "None"), "use.md", "exec"), {})
    assert evidence(log) == {QUESTION: None}


# The command


def test_the_command_lists_exports_and_forgets(noted, tmp_path):
    config, log = noted
    asked(log, "Why?\x1b[2J \u202e[red]x")
    note(log)
    note(log, QUESTION, doc="onion")
    listed = mog("list", "--config", config).stdout.splitlines()
    assert [line[18:] for line in listed] == [
        f"{QUESTION}  → garden/onion 0-16",
        f"{SECRET}  → garden/leek 0-16",
        "Why?\\x1b[2J \\u202e[red]x",
    ]
    assert len(mog("list", "--limit", 1, "--config", config).stdout.splitlines()) == 1
    file = tmp_path / "questions.jsonl"
    assert mog("export", file, "--config", config).stdout.startswith("wrote 2 questions")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        r for _, r in use_records(log, unanswered=False)
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert mog("export", file, "--asked", "--config", config).stdout.startswith("wrote 3 questions")
    assert mog("forget", "--question", f" {SECRET}\n", "--config", config).stdout == "deleted 1 entries\n"
    assert mog("forget", "--document", "garden/onion", "--config", config).stdout == "deleted 1 entries\n"
    today, tomorrow = ((datetime.now(UTC) + timedelta(days)).strftime("%Y-%m-%d") for days in (-1, 1))
    assert mog("forget", "--before", today, "--config", config).stdout == "deleted 0 entries\n"
    assert mog("forget", "--before", tomorrow, "--config", config).stdout == "deleted 1 entries\n"
    assert mog("list", "--config", config).stdout == "nothing is noted\n"
    assert b"Philippa" not in held(log)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "--question, --document, --before and --all, got none"),
        (["--all", "--question", "x"], "got 2"),
        (["--document", "garden"], "CORPUS/ID"),
        (["--before", "yesterday"], "yesterday"),
    ],
)
def test_forget_takes_one_condition(on, words, named):
    result = mog("forget", *words, "--config", on)
    assert result.exit_code == 2 and named in result.stderr


# Over HTTP


def test_nothing_is_noted_over_http_unless_it_is_switched_on(copied_project, tmp_path):
    # The project that was copied has the log of tests before.
    shutil.rmtree(copied_project.home / "use", ignore_errors=True)
    served = Served(copied_project.config, tmp_path)
    status, _, problem = served.call("/v1/used", {"question": QUESTION, "passage": GARLIC})
    assert status == 400 and "`use: {log: true}`" in problem["detail"]
    assert served.call("/v1/used/x", method="DELETE")[0] == 404
    assert served.call("/v1/corpora")[2]["use"] is False
    assert served.end() is not None and not (copied_project.home / "use").exists()


def place(passage):
    first, *more = passage["spans"]
    return {"passage": first, "more": more, "text": passage["text"]}


def test_a_page_notes_and_takes_back(served, noted):
    _, log = noted
    _, _, told = served.call("/v1/search", {"question": QUESTION, "k": 1})
    body = {"question": QUESTION, **place(told["passages"][0]), "method": told["method"]}
    status, _, first = served.call("/v1/used", body)
    assert status == 201 and served.call("/v1/used", body)[2]["id"] != first["id"]
    assert evidence(log) == {QUESTION: [{"quote": told["passages"][0]["text"], "corpus": "garden", "doc": "garlic"}]}
    assert served.call(f"/v1/used/{first['id']}", method="DELETE")[0] == 200
    assert len([entry for entry in use.entries(log) if entry.quotes]) == 1
    assert served.call(f"/v1/used/{first['id']}", method="DELETE")[0] == 404
    assert served.call("/v1/corpora")[2]["use"] is True


@pytest.mark.whole
def test_other_shapes_are_noted_as_questions(served, noted):
    _, log = noted
    dify = {"knowledge_id": "garden", "query": "Dify?", "retrieval_setting": {"top_k": 1, "score_threshold": 0}}
    assert served.call("/retrieval", dify)[0] == 200
    assert served.call("/v1/vector_stores/all/search", {"query": ["OpenAI one?", "OpenAI two?"]})[0] == 200
    assert served.call("/v1/ask", {"question": "Streamed?", "stream": True})[0] == 200
    assert served.call("/v1/search", {"question": "Wrong?", "method": "nope"})[0] == 400
    assert set(evidence(log)) == {"Dify?", "OpenAI one?", "OpenAI two?", "Streamed?"}


GARLIC = {"corpus": "garden", "document": "garlic", "start": 0, "end": 20}


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"question": QUESTION}, 422, "passage"),
        ({"question": QUESTION, "passage": GARLIC, "quote": "mine"}, 422, "quote"),
        ({"question": QUESTION, "passage": {**GARLIC, "end": "20"}}, 422, "end"),
        ({"question": QUESTION, "passage": {**GARLIC, "end": 10**9}}, 422, "at most 20,000 characters"),
        ({"question": QUESTION, "passage": GARLIC, "more": [GARLIC] * 201}, 422, "more"),
        ({"question": QUESTION, "passage": {**GARLIC, "document": "../../etc/passwd"}}, 404, "etc/passwd"),
        ({"question": QUESTION, "passage": GARLIC, "method": "'; DROP TABLE entries"}, 400, "method"),
        ({"question": "x" * 501, "passage": GARLIC}, 422, "at most 500 characters"),
        (
            b'{"question": "\\ud800", "passage": {"corpus": "garden", "document": "garlic", "start": 0, "end": 9}}',
            4,
            "",
        ),
    ],
)
def test_what_is_wrong_is_refused_and_not_kept(served, noted, body, status, named):
    _, log = noted
    got, headers, problem = served.call("/v1/used", body)
    assert (got if status > 9 else got // 100) == status and headers["content-type"] == "application/problem+json"
    assert named in problem["detail"]
    assert use.entries(log) == []


def test_other_sites_can_neither_note_nor_delete(served, noted):
    _, log = noted
    identity = note(log)
    evil = {"Origin": "http://evil.example"}
    assert served.call("/v1/used", {"question": QUESTION, "passage": GARLIC}, evil)[0] == 403
    assert served.call(f"/v1/used/{identity}", headers=evil, method="DELETE")[0] == 403
    for other in ("1", "%27%20OR%201=1", "x" * 3000, "%00"):
        assert served.call(f"/v1/used/{other}", method="DELETE")[0] in (404, 422)
    assert len(use.entries(log)) == 1


def test_metrics_count_what_could_not_be_noted(served, noted):
    _, log = noted
    asked(log, "Before?")
    holder = sqlite3.connect(log)
    holder.execute("BEGIN EXCLUSIVE")
    assert served.call("/v1/search", {"question": SECRET})[0] == 200
    text = served.call("/metrics")[2].decode()
    holder.close()
    assert "mog_use_log_failures_total 1.0" in text
    assert "Philippa" not in served.log.read_text()


def test_a_server_that_is_killed_loses_nothing_that_it_answered(on, noted, tmp_path):
    _, log = noted
    started = Served(on, tmp_path)
    for row in range(5):
        assert started.call("/v1/search", {"question": f"{row} {QUESTION}", "k": 1})[0] == 200
    assert started.call("/v1/used", {"question": QUESTION, "passage": GARLIC})[0] == 201
    started.process.kill()
    started.end()
    assert len(evidence(log)) == 6 and evidence(log)[QUESTION][0]["doc"] == "garlic"
