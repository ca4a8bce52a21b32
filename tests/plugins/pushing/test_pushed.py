"""Documents that programs push: on disk when they are taken, in the corpus after a run."""

import asyncio
import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from agents import over_stdio, told
from served import Served, command, environment
from shared import ROOT, new_project, run_alone

from mog_assets.build.tools import Tools
from mog_assets.plugins.pushing import pushed
from mog_assets.plugins.pushing.pushed import push
from mog_assets.resources.errors import ConfigError, MogError

STAGES = ["documents"]


def rows(*ids, **changes):
    return [{"id": str(id), "title": "Moor", "text": f"Moor {id} is wet.", **changes} for id in ids]


def stored(path):
    with sqlite3.connect(path) as connection:
        lines = connection.execute("SELECT line FROM documents ORDER BY id").fetchall()
        counted = connection.execute("SELECT sum(documents) FROM parts").fetchone()[0] or 0
    assert counted == len(lines)
    return [json.loads(line) for (line,) in lines]


def documents(settings):
    """The documents of a corpus as they are stored, and how many were read by the last run."""
    artefact = Tools(settings).store.read("documents", "notes")
    files = {name: artefact.path(name).read_bytes() for name in artefact.names("bucket")}
    return files, artefact.manifest.info["recomputed"]


def test_a_document_replaces_that_of_its_id_and_the_same_again_changes_nothing(tmp_path):
    path = tmp_path / "new" / "notes.sqlite"
    assert push(path, rows("b", "a")) == 2
    assert push(path, rows("a")) == 0
    assert push(path, [{"text": "Moor a is dry.", "id": "a"}], ["b", "none"]) == 2
    assert stored(path) == [{"id": "a", "text": "Moor a is dry."}]
    # The last of a batch wins; ids are one if they are equal under NFC.
    composed = unicodedata.normalize("NFC", "é")
    assert push(path, [*rows("x"), *rows("x", text="New."), *rows("é"), *rows(composed)], ["a"]) == 3
    assert [row["text"] for row in stored(path)] == ["New.", f"Moor {composed} is wet."]
    assert oct(path.stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"id": "a", "text": " "}, "empty document"),
        ({"id": "a"}, "expected strings id, title and text"),
        ({"id": "a", "text": "A\0"}, "NUL character"),
        ({"id": "a", "text": "\ud800"}, "surrogate"),
        ({"id": "x" * 1001, "text": "A."}, "at most 1000 characters"),
        ({"id": "a", "text": "A.", "metadata": {"x": float("nan")}}, "metadata"),
        ({"id": "a", "text": "A" * 300}, "at most 200 bytes"),
    ],
)
def test_of_a_batch_with_a_document_that_cannot_be_used_nothing_is_taken(tmp_path, row, reason):
    push(tmp_path / "notes.sqlite", rows("kept"))
    with pytest.raises(ConfigError, match=rf"documents\.1: .*{reason}"):
        push(tmp_path / "notes.sqlite", [*rows("new"), row], ["kept"], limit=200)
    assert [row["id"] for row in stored(tmp_path / "notes.sqlite")] == ["kept"]


def test_a_file_that_is_no_database_is_told_and_kept(tmp_path):
    (tmp_path / "notes.sqlite").write_text("not a database, and more than sixteen characters", encoding="utf-8")
    with pytest.raises(MogError, match="the pushed documents .* cannot be used"):
        push(tmp_path / "notes.sqlite", rows("a"))
    assert (tmp_path / "notes.sqlite").read_text(encoding="utf-8").startswith("not a database")


def test_what_many_push_at_once_is_all_there(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda n: push(tmp_path / "notes.sqlite", rows(n, "same")), range(40)))
    assert sum(counts) == 41 and len(stored(tmp_path / "notes.sqlite")) == 41


def test_a_run_reads_what_is_new_and_its_result_is_that_of_a_rebuild(tmp_path):
    settings = new_project(tmp_path / "a", {"corpora": {"notes": {"source": "pushed://notes.sqlite"}}}).settings
    told = run_alone(settings, select=STAGES).failures
    assert "nothing was pushed yet" in str(told)
    with pytest.raises(ConfigError, match='source: "pushed://FILE" in place of the key `pushed`'):
        new_project(tmp_path / "c", {"corpora": {"notes": {"pushed": "notes.sqlite"}}})
    path = tmp_path / "a" / "notes.sqlite"
    push(path, rows(*range(300)))
    assert not run_alone(settings, select=STAGES).failures
    assert documents(settings)[1]["documents read"] == 300
    # One is changed, one deleted, one is new.
    push(path, [*rows(7, text="Moor 7 is dry."), *rows("new")], ["8"])
    assert not run_alone(settings, select=STAGES).failures
    files, recomputed = documents(settings)
    assert (recomputed["items copied"], recomputed["documents read"], recomputed["documents unchanged"]) == (3, 2, 298)
    rebuilt = new_project(tmp_path / "b", {"corpora": {"notes": {"source": "pushed://notes.sqlite"}}}).settings
    push(tmp_path / "b" / "notes.sqlite", stored(path))
    assert not run_alone(rebuilt, select=STAGES).failures
    assert documents(rebuilt)[0] == files
    # Without a change nothing is copied.
    assert not run_alone(settings, select=STAGES).failures
    assert documents(settings)[1] == recomputed


PUSHING = """
import sys
from pathlib import Path
from mog_assets.plugins.pushing.pushed import push
for batch in range(1000):
    rows = [{"id": f"{batch}-{n}", "text": f"Moor {batch} {n}."} for n in range(25)]
    push(Path(sys.argv[1]), rows, [f"{batch - 1}-0"])
    print(batch, flush=True)
"""


@pytest.mark.parametrize("last", [0, 3, 17])
def test_of_what_was_acknowledged_nothing_is_lost_by_a_kill_and_nothing_is_there_twice(tmp_path, last):
    path = tmp_path / "notes.sqlite"
    words = [sys.executable, "-c", PUSHING, str(path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT)
    for line in process.stdout:
        if int(line) == last:
            os.kill(process.pid, signal.SIGKILL)
            break
    acknowledged = [int(line) for line in process.stdout]
    process.wait()
    whole = max([last, *acknowledged])
    ids = [row["id"] for row in stored(path)]
    wanted = {f"{batch}-{n}" for batch in range(whole + 1) for n in range(25)}
    # A batch that was not acknowledged is there as a whole, or not at all.
    more = {f"{whole + 1}-{n}" for n in range(25)}
    deleted = {f"{batch}-0" for batch in range(whole)}
    assert len(ids) == len(set(ids)) and set(ids) in (wanted - deleted, (wanted | more) - deleted - {f"{whole}-0"})
    # Who was not told that it was taken pushes it again.
    assert push(path, rows(*sorted(more))) == 25 and not push(path, rows(*sorted(more)))


@pytest.mark.full
def test_a_thousand_documents_pushed_to_a_server_that_is_killed_are_all_there_once(tmp_path):
    made = new_project(
        tmp_path / "p", {"corpora": {"notes": {"source": "pushed://notes.sqlite"}, "files": {"path": "files"}}}
    )
    (made.folder / "files").mkdir()
    (made.folder / "files" / "a.md").write_text("# Hens\n\nHens lay eggs.", encoding="utf-8")
    path, key = made.folder / "notes.sqlite", "a-key-of-many-letters"
    push(path, rows("first"))
    assert not run_alone(made.settings).failures
    batches = [[f"{batch}-{n}" for n in range(50)] for batch in range(20)]
    acknowledged, ends = [], []
    for last in (4, 11, None):
        served = Served(made.folder / "mog.yaml", tmp_path, "--push", key=key)
        killing = threading.Timer(0.02, os.kill, (served.process.pid, signal.SIGKILL))
        try:
            # What was not acknowledged is pushed again.
            for batch in batches[len(acknowledged) :]:
                if len(acknowledged) == last:
                    killing.start()
                    last = None
                answer = served.call("/v1/documents/notes", {"put": rows(*batch)})
                assert answer[0] == 200 and answer[2]["put"] == 50
                acknowledged.append(batch)
                time.sleep(0.005 * killing.is_alive())
        except (OSError, http.client.HTTPException):
            pass
        finally:
            killing.cancel()
            ends.append(served.end())
        ids = {row["id"] for row in stored(path)}
        assert {id for batch in acknowledged for id in batch} <= ids
        assert all(ids.isdisjoint(batch) or ids.issuperset(batch) for batch in batches), "a batch is whole or absent"
    assert ends[:2] == [-signal.SIGKILL] * 2 and len(ends) == 3
    assert len(acknowledged) == 20 and len(stored(path)) == 1001
    assert not run_alone(made.settings, select=STAGES).failures
    artefact = Tools(made.settings).store.read("documents", "notes")
    assert artefact.manifest.counts["documents"] == 1001


@pytest.mark.full
def test_documents_are_pushed_by_command_and_by_http_and_searched_after_the_next_run(tmp_path):
    made = new_project(
        tmp_path / "p",
        {
            "corpora": {"notes": {"source": "pushed://notes.sqlite"}, "files": {"path": "files"}},
            "answering": {"reader": "extractive"},
        },
    )
    (made.folder / "files").mkdir()
    (made.folder / "files" / "a.md").write_text("# Hens\n\nHens lay eggs.", encoding="utf-8")
    config = ["--config", str(made.folder / "mog.yaml")]

    def run(*words, **options):
        given = {"capture_output": True, "text": True, "env": environment(), "timeout": 600, **options}
        return subprocess.run([*command(*words), *config], **given)

    lines = "".join(json.dumps(row) + "\n" for row in rows(*range(1200)))
    taken = run("push", "notes", "-", input=lines)
    assert "1,200 put, 0 deleted, 1,200 changed" in taken.stdout, taken.stderr
    wrong = run("push", "notes", "-", input='{"id": "z", "text": "Z."}\n\n{"id": "y"}\n')
    assert wrong.returncode == 2 and "line 3: expected strings id" in wrong.stderr
    assert run("push", "files", "-", input="").returncode == 2
    assert "0 put, 1 deleted, 1 changed" in run("push", "notes", "--delete", "1199").stdout
    assert run("run").returncode == 0
    folder = tmp_path / "served"
    folder.mkdir()
    served = Served(made.folder / "mog.yaml", folder)
    try:
        assert served.call("/v1/documents/notes/owls", {"text": "Owls."}, method="PUT")[0] == 403
    finally:
        served.end()
    served = Served(made.folder / "mog.yaml", folder, "--push", key="a-key-of-many-letters")
    try:
        owls = {"title": "Owls", "text": "Owls hunt voles at dusk over the moor.", "metadata": {"seen": 2026}}
        status, _, told = served.call("/v1/documents/notes/owls", owls, method="PUT")
        assert (status, told["changed"]) == (200, 1)
        assert served.call("/v1/documents/notes/owls", owls, method="PUT")[2]["changed"] == 0
        long = {"put": [{"id": "long", "text": "Peat is cut. " * 20_000}], "delete": ["3"]}
        assert served.call("/v1/documents/notes", long)[2] == {"corpus": "notes", "put": 1, "deleted": 1, "changed": 2}
        assert served.call("/v1/documents/notes/owls")[0] == 404
        assert run("run").returncode == 0
        end = time.monotonic() + 60
        while served.call("/v1/documents/notes/owls")[0] != 200:
            assert time.monotonic() < end, "new artefacts are not taken over"
            time.sleep(0.2)
        told = served.call("/v1/search", {"question": "What do owls hunt?", "where": {"seen": 2026}})[2]
        assert [passage["document"] for passage in told["passages"]] == ["owls"]
        assert served.call("/v1/documents/notes/3")[0] == 404
        assert len(served.call("/v1/documents/notes/long")[2]["text"]) > 100_000
    finally:
        served.end()
    served = Served(made.folder / "mog.yaml", folder, "--push", "--live")
    try:
        assert served.call("/v1/documents/notes/bats", {"text": "Bats hang in the barn."}, method="PUT")[0] == 200
        end = time.monotonic() + 300
        while served.call("/v1/documents/notes/bats")[0] != 200:
            assert time.monotonic() < end, "what was pushed is not searched by itself"
            time.sleep(0.2)
        assert served.call("/v1/documents/notes/bats", method="DELETE")[0] == 200
        while served.call("/v1/documents/notes/bats")[0] != 404:
            assert time.monotonic() < end + 300, "what was deleted is still searched"
            time.sleep(0.2)
    finally:
        served.end()


# What `mog doctor` says


@pytest.mark.whole
def test_a_corpus_is_looked_at_before_and_after_the_first_push(tmp_path, make_project):
    from mog_assets.plugins.upkeep import doctor

    settings = make_project(tmp_path, {"corpora": {"notes": {"source": "pushed://notes.sqlite"}}}).settings
    assert [finding.state for finding in doctor.documents(settings)] == ["ok"]
    (notes,) = doctor.sources(settings)
    assert notes.state == "problem" and "nothing was pushed yet: push a document with `mog push`" in notes.found
    pushed.push(pushed.files_of(settings)["notes"], [{"id": "1", "text": "Two geese."}])
    assert [finding.state for finding in doctor.sources(settings)] == ["ok"]


# Agents


# The plugin `agents` serves them.


@pytest.mark.full
@pytest.mark.whole
def test_an_agent_pushes_documents_where_it_may(tmp_path):
    made = new_project(tmp_path / "p", {"corpora": {"notes": {"source": "pushed://notes.sqlite"}}})
    push(made.folder / "notes.sqlite", [{"id": "hens", "text": "Hens lay eggs."}])
    assert not run_alone(made.settings).failures

    async def names(agent):
        return {tool.name for tool in (await agent.list_tools()).tools}

    async def pushing(agent):
        put = [{"id": "owls", "text": "Owls hunt voles.", "metadata": {"seen": 2026}}]
        assert (await agent.list_tools()).tools[-1].annotations.destructive_hint
        first = told(await agent.call_tool("push", {"corpus": "notes", "put": put, "delete": ["hens"]}))
        again = told(await agent.call_tool("push", {"corpus": "notes", "put": put}))
        wrong = await agent.call_tool("push", {"corpus": "other", "put": put})
        return first["changed"], again["changed"], wrong.is_error and wrong.content[0].text

    config = made.folder / "mog.yaml"
    assert "push" not in asyncio.run(over_stdio(config, names))
    first, again, wrong = asyncio.run(over_stdio(config, pushing, "--push"))
    assert (first, again) == (2, 0) and "notes" in wrong
    with sqlite3.connect(made.folder / "notes.sqlite") as connection:
        assert [json.loads(line)["id"] for (line,) in connection.execute("SELECT line FROM documents")] == ["owls"]
