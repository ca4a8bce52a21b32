"""`mog plan`: what a run would build, and why."""

import json
import re

import pytest
from shared import called, one_line

from mog_assets.build.plan import graph


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
    # Before the first run nobody knows how long it took last time.
    shown = called("plan", "--config", project.config).stdout
    assert re.search(
        r"About \d+ pieces of text are encoded for the first time: about \S+ s, at the [\d,]+ a sec", shown
    )
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
