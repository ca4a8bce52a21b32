"""`mog prune`: what nothing needs goes, and nothing has to be built again."""

import json
import sqlite3
import subprocess
import sys
import time

import dagster as dg
import pytest
from moor import copied, moor, versions  # noqa: F401 (fixtures)
from shared import called, one_line

from mog_assets.build.plan import graph
from mog_assets.build.runner import instance
from mog_assets.build.tools import Tools
from mog_assets.cli.verification import verify
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.publishing import remove


def prune(project, *options):
    return called("prune", "--config", project.folder / "mog.yaml", *options)


def rows(path):
    with sqlite3.connect(path) as cache:
        return cache.execute("SELECT count(*) FROM vectors").fetchone()[0]


@pytest.fixture
def littered(copied):
    """A project with one of everything that can go, and what must stay beside it."""
    cache = copied.settings.home / "cache"
    encoder = Tools(copied.settings).encoder
    copied.own = cache / f"vectors-{encoder.fingerprint}.sqlite"
    copied.needed = rows(copied.own)
    encoder.encode(["a text of a document that was removed", "another"])
    other = Encoder(copied.settings.encoder.model_copy(update={"max_length": 16}), cache)
    other.encode(["a text"])
    copied.gone = [
        cache / f"vectors-{other.fingerprint}.sqlite",
        copied.store.folder("runs") / "runs-0123.parquet",
    ]
    for path in (copied.gone[1], cache / "llm.sqlite"):
        path.write_bytes(b"left over")
    return copied


def test_what_nothing_needs_goes_and_nothing_is_built_again(littered, moor, materialise_project):
    planned = prune(littered, "--dry-run").output
    assert all(path.exists() for path in littered.gone) and rows(littered.own) == littered.needed + 2
    told = prune(littered).output
    assert told == planned.replace("would remove", "removed")
    assert all(str(path) in told for path in littered.gone)
    assert "2 vectors of removed texts" in told
    assert not any(path.exists() for path in littered.gone)
    assert rows(littered.own) == littered.needed
    assert verify(littered.settings)[1] == [] and versions(littered.settings) == moor.versions
    assert materialise_project(littered.settings).steps == []
    # Answers were paid for.
    assert (littered.settings.home / "cache" / "llm.sqlite").exists()
    assert prune(littered).output == "removed 0 bytes\n"
    prune(littered, "--answers")
    assert not (littered.settings.home / "cache" / "llm.sqlite").exists()


def test_vectors_that_a_stopped_run_goes_on_from_stay(littered):
    store, corpus = littered.store, next(iter(littered.settings.corpora))
    remove(store, "embeddings/level_1", corpus)
    done = prune(littered)
    assert f"vectors of removed texts stay until embeddings/level_1 of corpus {corpus} is built" in done.output
    assert rows(littered.own) == littered.needed + 2


def test_nothing_goes_while_a_run_writes(littered):
    code = "from pathlib import Path; from mog_assets.resources.store import Store; import sys\n"
    code += "with Store(Path(sys.argv[1])).lock('runs'): print('held', flush=True); input()"
    command = [sys.executable, "-c", code, str(littered.settings.home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        done = prune(littered)
        assert done.exit_code == 1 and f"runs is being written by process {process.pid}" in done.output
        assert all(path.exists() for path in littered.gone)
        process.stdin.close()
    assert prune(littered).exit_code == 0


@pytest.mark.full
def test_runs_go_by_age_but_for_those_that_materialised_something_last(copied, materialise_project):
    measured = [key for key in ("runs", "scores", "history", "report") if key in graph(copied.settings)]
    materialise_project(copied.settings, force=measured)
    with instance(copied.settings) as opened:
        before = opened.get_runs_count()
    materialise_project(copied.settings, force=measured)
    with instance(copied.settings) as opened:
        replaced = opened.get_runs_count() - before
    time.sleep(1)
    assert "removed 0 Dagster runs" in prune(copied, "--runs-older-than", "1").output
    assert f"would remove {replaced} Dagster runs" in prune(copied, "--runs-older-than", "0", "--dry-run").output
    assert f"removed {replaced} Dagster runs" in prune(copied, "--runs-older-than", "0").output
    with instance(copied.settings) as opened:
        assert opened.get_runs_count() == before
        assert opened.get_latest_materialization_event(dg.AssetKey("documents"))
    assert verify(copied.settings)[1] == [] and materialise_project(copied.settings).steps == []


# `mog plan`: what a run would build, and why


@pytest.fixture
def project(tmp_path, make_project, write_documents):
    """A project of one small corpus, nothing of it made yet."""
    source = write_documents(tmp_path / "notes.jsonl", [("a", "Bread dough rises. Yeast makes gas.")])
    return make_project(tmp_path, {"corpora": {"notes": {"path": str(source)}}, "levels": 2})


def test_plan_says_what_a_run_would_build_and_why_and_builds_nothing(project, write_documents):
    plan = ("plan", "--json", "--config", project.config)
    first = {row["asset"]: row["why"] for row in json.loads(called(*plan).stdout)}
    assert set(first.values()) == {"new"} and not (project.home / "store").exists()
    assert {"documents", "statistics", "embeddings/level_2"} <= set(first)
    # A run says where the report is, and what it did not build is not advised.
    assert "mog search" not in called("run", "--config", project.config, "--select", "documents").stdout
    assert called("run", "--config", project.config).exit_code == 0
    assert "nothing" in called("plan", "--config", project.config).stdout
    write_documents(project.folder / "notes.jsonl", [("b", "Rye bread keeps for a week.")])
    rows = json.loads(called(*plan).stdout)
    edited = {(row["asset"], row["corpus"]): row["why"] for row in rows}
    assert edited[("documents", "notes")] == "changed: files"
    assert edited[("bm25/level_1", "notes")] == "where these change: documents, chunks/level_1, tokens"
    assert all(row["seconds"] > 0 for row in rows)
    assert json.loads(called(*plan).stdout) == rows
    assert [row["asset"] for row in json.loads(called(*plan, "--select", "documents").stdout)] == ["documents"]
    assert called("plan", "--corpus", "nots", "--config", project.config).exit_code == 2


def test_all_is_every_asset_and_no_selection(project):
    rows = json.loads(called("plan", "--all", "--json", "--config", project.config).stdout)
    assert {row["asset"] for row in rows} == set(graph(project.settings))
    result = called("run", "--all", "--select", "documents", "--config", project.config)
    assert result.exit_code == 2 and "--all: expected without --select" in one_line(result.stderr)
